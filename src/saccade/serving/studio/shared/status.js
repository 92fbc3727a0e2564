// Shows progress with a stop button for anything longer than a fifth of a second, and errors as sentences.

import { NO_ANSWER, Refused, isStopped } from "./api.js";
import { make, reveal } from "./dom.js";

const SILENT = 200; // milliseconds

export class Status {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.bar = make("progress", { "aria-label": "Progress" });
    this.text = make("span", { role: "status" });
    this.stopButton = make("button", { type: "button", class: "small", onclick: () => this.stop() }, "Stop");
    this.working = make("div", { class: "working", hidden: true }, this.bar, this.text, this.stopButton);
    this.error = make("p", { class: "error", role: "alert", hidden: true });
    place.append(this.working, this.error);
    /** @type {AbortController | null} */
    this.controller = null;
    /** @type {() => void} */
    this.whenSilent = () => undefined; // what is done when the server does not answer
  }

  stop() {
    this.controller?.abort();
  }

  /**
   * Runs something that can be stopped; a later call stops an earlier one. Gives undefined if it came to nothing.
   * @template Result
   * @param {string} what said while it runs: "Reading the text"
   * @param {(signal: AbortSignal, progress: (share: number, what?: string) => void) => Promise<Result>} run
   * @returns {Promise<Result | undefined>}
   */
  async during(what, run) {
    this.controller?.abort();
    const mine = new AbortController();
    this.controller = mine;
    const started = performance.now();
    /** @type {number | null} */
    let share = null;
    const tell = () => {
      const passed = (performance.now() - started) / 1000;
      if (mine !== this.controller || passed * 1000 < SILENT) return;
      reveal(this.working, true);
      if (share === null) this.bar.removeAttribute("value");
      else this.bar.value = share;
      const done = share === null ? `${passed.toFixed(1)} s` : `${Math.floor(100 * share)} %`;
      this.text.textContent = `${what} … ${done}`;
    };
    const timer = window.setInterval(tell, 100);
    try {
      const result = await run(mine.signal, (done, said) => {
        share = done;
        if (said) what = said;
      });
      if (mine !== this.controller) return undefined;
      this.say(null);
      return result;
    } catch (error) {
      if (mine === this.controller && !isStopped(error)) this.fail(error);
      return undefined;
    } finally {
      clearInterval(timer);
      if (mine === this.controller) {
        this.controller = null;
        reveal(this.working, false);
      }
    }
  }

  /** Tells of something that cannot be stopped here. @param {string | null} what null: it is done */
  wait(what) {
    reveal(this.working, what !== null);
    reveal(this.stopButton, what === null);
    this.bar.removeAttribute("value");
    this.text.textContent = what ?? "";
  }

  /** @param {unknown} error */
  fail(error) {
    if (error instanceof Refused) {
      this.say(error.message);
      if (error.status === NO_ANSWER) this.whenSilent();
    } else if (!isStopped(error)) {
      this.say("Something went wrong on this page; reloading it may help.");
      console.error(error);
    }
  }

  /** @param {string | null} sentence */
  say(sentence) {
    this.error.textContent = sentence ?? "";
    reveal(this.error, Boolean(sentence));
  }
}
