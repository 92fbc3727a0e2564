// Light or dark: the system's preference, until the user chooses.

import { byId } from "./dom.js";

/** @param {string} name */
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const other = name === "dark" ? "Light" : "Dark";
  byId("theme").textContent = name === "dark" ? "☀" : "☾";
  byId("theme").setAttribute("aria-label", `${other} colours`);
}

/** @param {() => void} changed draws again what is seen */
export function startTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  setTheme(localStorage.getItem("theme") ?? (system.matches ? "dark" : "light"));
  const choose = (/** @type {string} */ name) => {
    setTheme(name);
    changed();
  };
  system.addEventListener("change", () => {
    if (!localStorage.getItem("theme")) choose(system.matches ? "dark" : "light");
  });
  byId("theme").addEventListener("click", () => {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", name);
    choose(name);
  });
}
