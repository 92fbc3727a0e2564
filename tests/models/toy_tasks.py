"""Small tasks that a network must learn, the loop that trains it, and how well it then does on new examples."""

import torch
import torch.nn.functional as F

from saccade.decoding import beam_search

END, START, FIRST = 0, 1, 2
SYMBOLS = 8
VOCABULARY = FIRST + SYMBOLS
TASKS = {
    "copy": lambda sequence: sequence,
    "reverse": lambda sequence: sequence.flip(0),
    "sort": lambda sequence: sequence.sort().values,
}


def examples(task, count, shortest, longest):
    """Random sequences, padded with END: source (B, S), lengths (B,), and the answer with its END (B, S + 1)."""
    lengths = torch.randint(shortest, longest + 1, (count,))
    source = torch.full((count, longest), END)
    answer = torch.full((count, longest + 1), END)
    for row, length in enumerate(lengths.tolist()):
        sequence = torch.randint(FIRST, VOCABULARY, (length,))
        source[row, :length] = sequence
        answer[row, :length] = TASKS[task](sequence)
    return source, lengths, answer


def shifted(answer):
    """What the decoder reads: START, and the answer but its last token."""
    return F.pad(answer, (1, 0), value=START)[:, :-1]


def real(lengths, width):
    """True up to the END of each answer."""
    return torch.arange(width) <= lengths[:, None]


def fit(model, batch_loss, steps, learning_rate):
    """Minimises `batch_loss()` with a warm-up and a linear descent, the same for every network."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    warm = steps // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / warm, 1.05 - step / steps))
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        batch_loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def learn(model, task, steps, learning_rate, *, shortest, longest, batch=64):
    def batch_loss():
        source, lengths, answer = examples(task, batch, shortest, longest)
        logits = model(source, lengths, shifted(answer))
        kept = real(lengths, answer.shape[1])
        return F.cross_entropy(logits[kept], answer[kept])

    fit(model, batch_loss, steps, learning_rate)


@torch.no_grad()
def token_accuracy(model, task, *, shortest, longest, count=200):
    """Of new sequences: the fraction of tokens, END included, that greedy decoding puts at the right place."""
    source, lengths, answer = examples(task, count, shortest, longest)
    found = beam_search(
        model,
        model.start(source, lengths, longest + 1),
        batch_size=count,
        start_token=START,
        end_token=END,
        max_length=longest + 1,
        beam=1,
    )
    written = torch.full_like(answer, -1)
    for row, (best,) in enumerate(found):
        tokens = [*best.tokens, END][: longest + 1]
        written[row, : len(tokens)] = torch.tensor(tokens)
    kept = real(lengths, answer.shape[1])
    return (written == answer)[kept].float().mean().item()
