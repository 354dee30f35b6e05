// The live page: asks for what has changed and changes only that, so that what is open stays open, the page stays where
// it was scrolled to, and a selection stays. What is open is opened again when the user reloads the page.
// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
  const RETRY_MS = 2000;
  const TIMEOUT_MS = 30000;
  // Of this run alone: its path is like no other.
  const OPEN_KEY = `open ${location.pathname}`;
  const status = document.getElementById("status");
  let version = 0;
  let lostAt = null;

  function show(message, isBad) {
    if (status.textContent !== message) status.textContent = message;
    status.classList.toggle("bad", isBad);
  }

  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);

  function isAlike(old, fresh) {
    return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
  }

  function changeAttributes(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  function change(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    changeAttributes(old, fresh);
    changeChildren(old, fresh);
  }

  // A node that is put elsewhere loses where it was scrolled to and the focus.
  function move(parent, node, place) {
    const scrolled = [...node.querySelectorAll("[data-key]")].map((one) => [one, one.scrollTop, one.scrollLeft]);
    const focused = node.contains(document.activeElement) ? document.activeElement : null;
    parent.insertBefore(node, place);
    for (const [one, top, left] of scrolled) one.scrollTo(left, top);
    if (focused) focused.focus({ preventScroll: true });
  }

  function changeChildren(old, fresh) {
    const keyed = new Map();
    for (const child of old.childNodes) if (keyOf(child) !== null) keyed.set(keyOf(child), child);
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      const match = key === null ? place : keyed.get(key);
      if (match && isAlike(match, child)) {
        if (match === place) place = place.nextSibling;
        else move(old, match, place);
        change(match, child);
      } else {
        old.insertBefore(child, place);
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  function update(state) {
    for (const [id, html] of Object.entries(state.parts)) {
      const fresh = document.createElement("template");
      fresh.innerHTML = html;
      changeChildren(document.getElementById(id), fresh.content);
    }
    version = state.version;
    document.title = state.title;
  }

  async function ask() {
    const answer = await fetch(`state?since=${version}`, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (answer.status === 404) return null;
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }

  async function follow() {
    for (;;) {
      try {
        const state = await ask();
        if (state === null) {
          show("Another run is served at this address now. This is the last state of the one before.", true);
          return;
        }
        update(state);
        lostAt = null;
        if (state.ended) {
          show("The run has ended. This page does not change any more.", false);
          return;
        }
        show("Live: this page follows the run.", false);
      } catch {
        lostAt = lostAt || new Date().toLocaleTimeString();
        show(`The run's process has not answered since ${lostAt}: it is gone, stopped, or out of reach. ` +
          "This is its last state.", true);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  function rememberOpen() {
    const keys = [...document.querySelectorAll("details[open][data-key]")].map(keyOf);
    sessionStorage.setItem(OPEN_KEY, JSON.stringify(keys));
  }

  function openAgain() {
    for (const key of JSON.parse(sessionStorage.getItem(OPEN_KEY) || "[]")) {
      const one = document.querySelector(`details[data-key="${CSS.escape(key)}"]`);
      if (one) one.open = true;
    }
  }

  try {
    openAgain();
    addEventListener("pagehide", rememberOpen);
  } catch {
    // A browser that keeps nothing for a page.
  }
  follow();
})();
