"""Italian in the built-in corpus: articles that depend on the next sound, contractions, and a past tense of two
words."""

from __future__ import annotations

from saccade.data.grammar.languages.language import entries, noun_key, render
from saccade.data.grammar.languages.romance import Romance
from saccade.data.grammar.meaning import (
    Adjunct,
    Both,
    Clause,
    Copula,
    Entity,
    Fixed,
    Identity,
    Nominal,
    Quality,
    VerbUse,
)
from saccade.data.grammar.phrase import Rendering

__all__ = ["Italian"]

# English, Italian[/plural], gender, "k" for a relative, who takes no article after "my"
_NOUNS = entries(
    "man uomo/uomini m, boy ragazzo m, king re/re m, father padre m k, brother fratello m k, uncle zio/zii m k, "
    "prince principe m, actor attore m, woman donna f, girl ragazza f, queen regina f, mother madre f k, "
    "sister sorella f k, aunt zia f k, princess principessa f, actress attrice f, witch strega f, kid bambino m, "
    "teacher insegnante m, doctor medico/medici m, farmer contadino m, baker fornaio m, neighbor vicino m, "
    "nurse infermiera f, friend amico/amici m, soldier soldato m, student studente m, dancer ballerina f, "
    "cat gatto m, dog cane m, horse cavallo m, cow mucca f, lion leone m, fox volpe f, wolf lupo m, goat capra f, "
    "owl gufo m, giraffe giraffa f, elephant elefante m, bear orso m, snake serpente m, mouse topo m, "
    "rabbit coniglio m, duck anatra f, hen gallina f, bird uccello m, frog rana f, turtle tartaruga f, "
    "spider ragno m, bee ape f, butterfly farfalla f, cake torta f, apple mela f, pear pera f, cheese formaggio m, "
    "egg uovo/uova m, carrot carota f, tomato pomodoro m, strawberry fragola f, cookie biscotto m, soup zuppa f, "
    "salad insalata f, pie crostata f, milk latte m, water acqua f, tea tè m, coffee caffè m, juice succo m, "
    "letter lettera f, door porta f, window finestra f, key chiave f, bottle bottiglia f, hat cappello m, "
    "dress vestito m, shoe scarpa f, umbrella ombrello m, car macchina f, boat barca f, flower fiore m, "
    "knife coltello m, newspaper giornale m, gift regalo m, clock orologio m, bag borsa f, guitar chitarra f, "
    "table tavolo m, chair sedia f, bed letto m, tree albero m, cupboard armadio m, house casa f, garden giardino m, "
    "school scuola f, market mercato m, park parco m, church chiesa f, kitchen cucina f, forest foresta f, "
    "hotel albergo m, castle castello m, village villaggio m, hospital ospedale m, farm fattoria f, museum museo m, "
    "bridge ponte m, beach spiaggia/spiagge f, mountain montagna f, island isola f, street strada f, avenue viale m, "
    "square piazza f, road via f, river fiume m, stream ruscello m, lake lago m, canal canale m, customer cliente m, "
    "banker banchiere m, thief ladro m, fisherman pescatore m, swimmer nuotatrice f, sailor marinaio m, "
    "film film/film m, book libro m, comedy commedia f, story storia f, meal pasto m, restaurant ristorante m, "
    "poem poesia f, lesson lezione f, idea idea f, game gioco m, article articolo m, song canzone f, "
    "melody melodia f, opera opera f, bank banca f, riverbank riva f"
)
_ADJECTIVES = entries(
    "small piccolo, big grande, beautiful bello, old vecchio, new nuovo, good buono, bad cattivo, pretty carino, "
    "young giovane, black nero, white bianco, red rosso, green verde, blue blu, yellow giallo, gray grigio, "
    "heavy pesante, modern moderno, strange strano, famous famoso, sad triste, happy felice, lazy pigro, "
    "tired stanco, hungry affamato, curious curioso, furious furioso, dangerous pericoloso, quiet tranquillo, "
    "slow lento, wounded ferito, cruel crudele, enormous enorme, intelligent intelligente, brave coraggioso, "
    "strong forte, delicious delizioso, fresh fresco, cold freddo, hot caldo, excellent eccellente, "
    "wonderful meraviglioso, funny divertente, interesting interessante, fascinating affascinante, boring noioso, "
    "terrible terribile, awful orribile, ridiculous ridicolo, disappointing deludente"
)
_BEFORE = frozenset({"small", "big", "beautiful", "old", "new", "good", "bad", "young"})
# English, infinitive, then where irregular: present (he, they), participle, future (he); * for those with essere
_VERBS = entries(
    "eat mangiare mangia mangiano mangiato mangerà, see vedere vede vedono visto vedrà, find trovare, "
    "follow seguire segue seguono seguito seguirà, chase inseguire insegue inseguono inseguito inseguirà, "
    "love adorare, like apprezzare, hate odiare odia odiano odiato odierà, buy comprare, "
    "sell vendere vende vendono venduto venderà, take prendere prende prendono preso prenderà, "
    "lose perdere perde perdono perso perderà, break rompere rompe rompono rotto romperà, wash lavare, "
    "paint dipingere dipinge dipingono dipinto dipingerà, draw disegnare, visit visitare, "
    "reach raggiungere raggiunge raggiungono raggiunto raggiungerà, cross attraversare, help aiutare, call chiamare, "
    "drink bere beve bevono bevuto berrà, choose scegliere sceglie scelgono scelto sceglierà, admire ammirare, "
    "frighten spaventare, look_for cercare cerca cercano cercato cercherà, wait_for aspettare, listen_to ascoltare, "
    "give dare dà danno dato darà, show mostrare, send mandare, bring portare, "
    "sleep dormire dorme dormono dormito dormirà, run correre corre corrono corso correrà, "
    "cry piangere piange piangono pianto piangerà, sing cantare, dance ballare, swim nuotare, "
    "play giocare gioca giocano giocato giocherà, fall *cadere cade cadono caduto cadrà, stay *restare, "
    "arrive *arrivare, leave *partire parte partono partito partirà, come_back *tornare, "
    "go *andare va vanno andato andrà, think pensare, know sapere sa sanno saputo saprà, "
    "say dire dice dicono detto dirà"
)
_MODALS = {"want": ("vuole", "vogliono"), "can": ("può", "possono"), "must": ("deve", "devono")}
_AUXILIARIES = {  # (essere, plural, person)
    (False, False, 3): "ha",
    (False, True, 3): "hanno",
    (False, False, 1): "ho",
    (False, True, 1): "abbiamo",
    (True, False, 3): "è",
    (True, True, 3): "sono",
    (True, False, 1): "sono",
    (True, True, 1): "siamo",
}
_BE = {"past": ("era", "erano"), "present": ("è", "sono")}
# masculine, feminine, masculine plural, feminine plural; possessives follow the article
_POSSESSIVES = {
    "my": ("mio", "mia", "miei", "mie"),
    "his": ("suo", "sua", "suoi", "sue"),
    "her": ("suo", "sua", "suoi", "sue"),
    "our": ("nostro", "nostra", "nostri", "nostre"),
}
_THIS = ("questo", "questa", "questi", "queste")
_SOME = ("", "", "alcuni", "alcune")
# preposition -> what it becomes before an article: a + il = al, a + la = alla
_CONTRACTED = {"a": "a", "di": "de", "in": "ne"}
_ARTICLES = {"il": "l", "lo": "llo", "la": "lla", "l'": "ll'", "i": "i", "gli": "gli", "le": "lle"}


def _plural(word: str, gender: str) -> str:
    if word[-1] in "èùùu":
        return word
    if gender == "f" and word.endswith("a"):
        return word[:-1] + ("he" if word[-2] in "cg" else "e")
    if word.endswith("io"):
        return word[:-1]
    if word.endswith(("co", "go")):
        return word[:-1] + "hi"
    return word[:-1] + "i"


def _sound(word: str) -> str:
    """Return how a word starts, which decides the article: "vowel", "impure" (s and a consonant, z, ...) or "plain"."""
    if word[0] in "aeiou":
        return "vowel"
    impure = word[0] == "z" or (word[0] == "s" and word[1] not in "aeiou") or word[:2] in ("gn", "ps")
    return "impure" if impure else "plain"


def _definite(gender: str, plural: bool, following: str) -> str:
    sound = _sound(following)
    if plural:
        return "le" if gender == "f" else "i" if sound == "plain" else "gli"
    if sound == "vowel":
        return "l'"
    return "la" if gender == "f" else "lo" if sound == "impure" else "il"


def _indefinite(gender: str, following: str) -> str:
    sound = _sound(following)
    if gender == "f":
        return "un'" if sound == "vowel" else "una"
    return "uno" if sound == "impure" else "un"


#: Forms of bello and buono before a noun, which end as the articles do.
_BELLO = {"il": "bel", "lo": "bello", "l'": "bell'", "la": "bella", "i": "bei", "gli": "begli", "le": "belle"}
_BUONO = {"un": "buon", "uno": "buono", "una": "buona", "un'": "buon'"}


_GENDERS = {english: forms[1] for english, forms in _NOUNS.items()}
# the subject pronouns that are written; for the others, the verb or an adjective shows who is meant
_PRONOUNS = {"he": "lui/PRON", "she": "lei/PRON", "who": "chi/PRON"}
_FIXED = {
    ".": "./PUNCT",
    "?": "?/PUNCT",
    ",": ",/PUNCT",
    "and": "e/CCONJ",
    "but": "ma/CCONJ",
    ", but": ",/PUNCT ma/CCONJ",
    ", so": ",/PUNCT quindi/CCONJ",
    "because": "perché/SCONJ",
    "that": "che/SCONJ",
    "very": "molto/ADV",
    "really": "davvero/ADV",
    "often": "spesso/ADV",
    "always": "sempre/ADV",
    "where": "dove/ADV",
    "why": "perché/ADV",
    "when": "quando/ADV",
    "yesterday": "ieri/ADV",
    "this morning": "questa/DET mattina/NOUN",
    "every day": "ogni/DET giorno/NOUN",
    "every evening": "ogni/DET sera/NOUN",
    "tomorrow": "domani/ADV",
    "right away": "subito/ADV",
    "slowly": "lentamente/ADV",
    "quickly": "velocemente/ADV",
    "calmly": "tranquillamente/ADV",
    "carefully": "attentamente/ADV",
    "in": "in/ADP",
    "near": "vicino/ADP a/ADP",
    "behind": "dietro/ADP",
    "in front of": "davanti/ADP a/ADP",
    "under": "sotto/ADP",
    "with": "con/ADP",
    "to": "a/ADP",
    "at": "a/ADP",
}


class Italian(Romance):
    code, name = "it", "Italian"
    genders = _GENDERS
    pronouns = _PRONOUNS
    scared = ("aveva", "avevano", "paura", "di")
    relative_pronoun = "che"
    weeks = ("settimana", "scorsa", "prossima")
    fixed = _FIXED

    def gender(self, entity: Entity) -> str:
        if isinstance(entity, Both):
            return "f" if self.gender(entity.first) == self.gender(entity.second) == "f" else "m"
        noun = getattr(entity, "noun", None)
        if entity.plural and noun is not None and noun.english == "egg":
            return "f"  # l'uovo, le uova
        return super().gender(entity)

    def nominal(self, nominal: Nominal) -> list[Rendering]:
        noun, gender, *kin = _NOUNS[noun_key(nominal.noun)]
        singular, _, plural = noun.partition("/")
        form = (plural or _plural(singular, gender)) if nominal.plural else singular
        gender = self.gender(nominal)
        written = [Rendering(form, "NOUN", (nominal.head,))]
        for quality in reversed(nominal.adjectives):
            if quality.adjective in _BEFORE:
                text = self.before(quality, gender, nominal.plural, written[0].text)
                written.insert(0, Rendering(text, "ADJ", (quality.word,)))
            else:
                written.append(self.agreeing(quality, gender, nominal.plural))
        bare = bool(kin) and not nominal.plural and not nominal.adjectives and nominal.relative is None
        return self.determiner(nominal, gender, written[0].text, bare) + written

    def before(self, quality: Quality, gender: str, plural: bool, following: str) -> str:
        """Return an adjective before its noun: un bel gatto, un buon amico."""
        if quality.adjective == "beautiful":
            return _BELLO[_definite(gender, plural, following)]
        if quality.adjective == "good" and not plural:
            return _BUONO[_indefinite(gender, following)]
        return self.agreeing(quality, gender, plural).text

    def determiner(self, nominal: Nominal, gender: str, following: str, bare: bool) -> list[Rendering]:
        """Write the determiner. If `bare`, a possessive has no article before it: mia madre."""
        key, words, plural = nominal.determiner.key, nominal.determiner.words, nominal.plural
        index = (gender == "f") + 2 * plural
        if key in _POSSESSIVES:
            possessive = Rendering(_POSSESSIVES[key][index], "PRON", words)
            article = _definite(gender, plural, possessive.text)
            return [possessive] if bare else [Rendering(article, "DET", words), possessive]
        if key == "the":
            form = _definite(gender, plural, following)
        elif key == "a":
            form = _indefinite(gender, following)
        elif key in ("this", "these"):
            form = "quest'" if not plural and _sound(following) == "vowel" else _THIS[index]
        else:
            form = {"some": _SOME[index], "two": "due", "three": "tre"}[key]
        return [Rendering(form, words[0].tag, words)]

    def agreeing(self, quality: Quality, gender: str, plural: bool) -> Rendering:
        (word,) = _ADJECTIVES[quality.adjective]
        form = word[:-1] + "a" if gender == "f" and word.endswith("o") else word
        return Rendering(_plural(form, gender) if plural else form, "ADJ", (quality.word,))

    def forms(self, verb: str) -> tuple[bool, str, list[str]]:
        """Return three things: whether the past tense of a verb is formed with essere; its infinitive; and the four
        other forms that the corpus needs, such as the participle."""
        infinitive, *given = _VERBS[verb]
        essere, infinitive = infinitive.startswith("*"), infinitive.removeprefix("*")
        stem = infinitive[:-3]
        return essere, infinitive, given or [stem + "a", stem + "ano", stem + "ato", stem + "erà"]

    def with_verb(self, adjunct: Adjunct) -> list[Rendering]:
        assert adjunct.verb is not None
        _, infinitive, forms = self.forms(adjunct.verb.key)
        if adjunct.kind == "after":  # dopo aver attraversato
            crossing = render(f"aver/AUX {forms[2]}/VERB", adjunct.verb.words)
            return [*render("dopo/ADP", adjunct.marker.words), *crossing]
        return [*render("per/ADP", adjunct.marker.words), Rendering(infinitive, "VERB", adjunct.verb.words)]

    def verb(self, use: VerbUse, subject: Entity) -> list[Rendering]:
        essere, infinitive, forms = self.forms(use.verb)
        plural = subject.plural
        if use.modal is not None:
            finite = Rendering(_MODALS[use.modal.key][plural], "VERB", use.modal.words[:1])
            return [finite, Rendering(infinitive, "VERB", use.main)]
        before = [Rendering("non", "PART", use.negation.words)] if use.negation else []
        never = use.negation is not None and use.negation.key == "never"
        after = [Rendering("mai", "ADV", use.negation.words)] if use.negation and never else []
        if use.tense == "past":
            finite = Rendering(_AUXILIARIES[essere, plural, subject.person], "AUX", use.auxiliary or use.main)
            participle = forms[2]
            if essere:
                feminine = self.gender(subject) == "f"
                participle = participle[:-1] + (("e" if plural else "a") if feminine else ("i" if plural else "o"))
            return [*before, finite, *after, Rendering(participle, "VERB", use.main)]
        if use.tense == "present":
            verb = Rendering(forms[plural], "VERB", use.main)
        else:
            verb = Rendering(forms[3][:-1] + "anno" if plural else forms[3], "VERB", use.auxiliary + use.main)
        return [*before, verb, *after, *self.say(use.frequency)]

    def be(self, copula: Copula | Identity, plural: bool) -> Rendering:
        return Rendering(_BE[copula.tense][plural], "AUX", copula.be)

    def negated(self, copula: Copula, be: Rendering) -> list[Rendering]:
        if copula.negation is None:
            return [be]
        words = copula.negation.words
        never = [Rendering("mai", "ADV", words)] if copula.negation.key == "never" else []
        return [Rendering("non", "PART", words), be, *never]

    def this(self, gender: str) -> str:
        return "questa" if gender == "f" else "questo"

    def question(self, clause: Clause) -> list[Rendering]:
        """Write a question in the order of a statement, except that the subject is last after "dove" and "quando"."""
        assert isinstance(clause.predicate, VerbUse)
        assert not isinstance(clause.subject, Fixed)
        verb, subject = self.verb(clause.predicate, clause.subject), self.entity(clause.subject)
        if clause.asking is not None and clause.asking.key != "why":
            return [*self.say(clause.asking), *verb, *self.rest(clause), *subject]
        return [*self.say(clause.asking), *subject, *verb, *self.rest(clause)]

    def settle(self, written: list[Rendering]) -> list[Rendering]:
        """Contract prepositions with articles: "a il" to "al", "di la" to "della", "in gli" to "negli"."""
        settled: list[Rendering] = []
        for word in written:
            last = settled[-1] if settled else None
            if last is not None and last.tag == "ADP" and last.text in _CONTRACTED and word.text in _ARTICLES:
                form = _CONTRACTED[last.text] + _ARTICLES[word.text]
                settled[-1] = Rendering(form, "ADP", last.sources + word.sources)
            else:
                settled.append(word)
        return settled
