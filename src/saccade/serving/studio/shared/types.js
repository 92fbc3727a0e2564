// The types of the server's answers, for the type checker; nothing here runs.

/**
 * @typedef {{tokens: string[], words: (number | null)[], labels: string[]}} Axis
 * @typedef {{name: string, kind: string, heads: number, rows: string, columns: string}} Attention
 * @typedef {{height: number, width: number, pixels: any[], grid: [number, number], class_token: boolean}} ShownImage
 * @typedef {object} Alignment
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {number[][]} values
 * @property {string} name  the attention that it is read from
 * @property {number[]} heads  whose mean it is
 * @property {number} row_offset  0: the row that predicts a word; 1: the row that reads it
 * @property {boolean} chosen  whether training data decided where it is read from
 * @typedef {{text: string, tokens: string[], before: number[], after: number[]}} Scored
 * @typedef {{changed: string[], same: boolean, before: Scored, after: Scored}} Change
 * @typedef {{word: string, weight?: number, effect?: number}} Deciding
 * @typedef {Record<string, any>} AnswerRecord  what `saccade predict --json` writes; each task has its own fields
 *
 * @typedef {object} Look
 * @property {string | null} id  null: the model looks at nothing, and `why` says so
 * @property {string} [why]
 * @property {AnswerRecord} answer
 * @property {AnswerRecord[]} [alternatives]  all answers, the best first
 * @property {number} [which]  the one that is looked at
 * @property {string} layer  the attention that is shown first
 * @property {number | string} [head]  the head of it that is shown first
 * @property {string[]} [left_out]  what the attentions that are shown lack of the model's
 * @property {Record<string, string[]>} [stacks]  self-attentions that follow each other: what a rollout is of
 * @property {Deciding[]} [deciding]  of a classifier
 * @property {string} [undecided]  why no words are told
 * @property {Attention[]} attentions
 * @property {Record<string, Axis>} axes
 * @property {Alignment} [alignment]
 * @property {ShownImage} [image]
 * @property {number[][]} [probabilities]  of each pair of bases
 * @property {[number, number][] | null} [true_pairs]  of bases, if they are known
 * @property {Change} [change]
 * @property {string[]} [unknown]  words of the input that the model does not know
 *
 * @typedef {{kind: "text"} | {kind: "json", schema: object} | ImageKind} ModelInput  what it is asked with
 * @typedef {{kind: "image", height: number, width: number, channels?: number}} ImageKind
 *
 * @typedef {object} Model
 * @property {string} name
 * @property {string} task
 * @property {string} [about]
 * @property {string} [kind]
 * @property {{family: string, sizes: string, engine: string}} [made]  what it is, and what computes its answers
 * @property {any[]} examples
 * @property {boolean} streams
 * @property {boolean} has_attention
 * @property {Record<string, any>} options
 * @property {ModelInput} input
 * @property {boolean} [writes]  whether it writes its answer token by token
 * @property {boolean} [reads]  whether it reads long texts without answering: what Map needs
 * @property {string} [kept_part] "first" or "last", if it reads only this part of a text that is too long
 * @property {Record<string, any>} [defaults]
 * @property {{source: string, target: string}} [languages]
 * @property {string[]} words  the vocabularies whose words it has learned something of
 *
 * @typedef {{name: string, progress: number, steps: number | null, failure: string | null}} Pending  being trained
 * @typedef {{token: string, candidates: {token: string, probability: number}[]}} Candidates  of one step
 * @typedef {Record<string, Record<string, number | null>[]>} Measures  of each head, by attention
 *
 * @typedef {{rows: number, columns: number, values: Float32Array | Float64Array}} Matrix  row by row
 * @typedef {object} HeadPictures
 * @property {number} heads
 * @property {number} rows
 * @property {number} columns
 * @property {Float32Array} values
 * @property {string} pool
 * @property {[number, number]} cell
 *
 * @typedef {object} Step
 * @property {string} name
 * @property {string} title
 * @property {string} equation
 * @property {string} code
 * @property {any[]} values
 * @property {string[]} row_labels
 * @property {string[]} column_labels
 * @property {string[]} block_labels
 * @property {number[][]} changed
 * @property {Record<string, string>} row_notes  by the number of the row
 * @typedef {object} Walkthrough
 * @property {Step[]} steps
 * @property {string} score
 * @property {string} weights
 * @property {string} mask
 * @property {string[]} query_labels
 * @property {string[]} key_labels
 * @typedef {Record<string, any>} WalkDocument  the keys of `saccade explain`'s file
 *
 * @typedef {object} Run
 * @property {string} name
 * @property {string} task
 * @property {number} step
 * @property {number | null} steps
 * @property {boolean} finished
 * @property {boolean} running  a process trains it now
 * @property {string | null} metric
 * @property {Record<string, number> | null} scores
 * @property {string} part  of the data that these scores are of: "test" or "validation"
 * @typedef {object} Metric
 * @property {number} step
 * @property {number} [loss]
 * @property {number} [rate]
 * @property {number} [seconds]
 * @property {Record<string, number>} [validation]
 * @property {Record<string, number>} [speed]  predictions per second of all processes, by what is predicted
 * @property {Record<string, number>} [processes]  if several: seconds of each for an update, by its number
 * @typedef {Run & {metrics: Metric[], place: number, probes: number[]}} RunDetails
 * @typedef {{inputs: string[], outputs: string[], text: string, weights: number[][]}} Probe
 *
 * @typedef {Record<string, string>} Parts  the parameters of an address
 *
 * @typedef {object} Studio  what every page is given
 * @property {Model[]} models
 * @property {() => Model | null} model  the chosen one
 * @property {import("./status.js").Status} status
 * @property {(parts: Record<string, string | null>, how?: "push" | "replace") => void} go  changes this page's address
 * @property {(page: string, parts: Parts) => void} open  goes to another page
 * @property {() => Parts} parts
 * @property {() => Promise<Pending[]>} readModels  reads which models there are by now, and gives those to come
 *
 * @typedef {object} PageView
 * @property {(parts: Parts) => void | Promise<void>} show  makes the page say what the address says
 * @property {() => void} [leave]
 * @property {() => void} [redraw]  after another theme
 * @property {Record<string, {does: string, run?: () => void}>} [keys]  without `run`: what the browser does
 */

export {};
