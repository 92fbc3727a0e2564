// The API key of the server: the user is asked for it when the server refuses a request; the tab keeps it until closed.

import { byId, reveal } from "./dom.js";

const KEPT_AS = "api-key";
const dialog = /** @type {HTMLDialogElement} */ (byId("api-key"));
const input = /** @type {HTMLInputElement} */ (byId("api-key-input"));
/** @type {Promise<boolean> | null} */
let asking = null; // many requests may be refused at once, but the person is asked once

/** @returns {string | null} */
export function heldKey() {
  return sessionStorage.getItem(KEPT_AS);
}

/**
 * Has the person give a key in place of the one that was refused. False: they would rather not.
 * @param {string | null} refused what the request was sent with
 * @returns {Promise<boolean>}
 */
export async function replaceKey(refused) {
  if (heldKey() !== refused) return true; // another one was given while this request was on its way
  asking ??= askPerson(refused !== null).finally(() => (asking = null));
  return asking;
}

/** @param {boolean} wasWrong */
function askPerson(wasWrong) {
  reveal(byId("api-key-wrong"), wasWrong);
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const isGiven = dialog.returnValue === "given";
        if (isGiven) sessionStorage.setItem(KEPT_AS, input.value.trim());
        input.value = "";
        resolve(isGiven);
      },
      { once: true },
    );
  });
}
