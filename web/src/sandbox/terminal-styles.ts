// The page's policy lets no style run that stands in the page. The emulator writes its rules into <style> elements; here they go
// into constructed style sheets, which are the page's own script's work.

import type { Terminal } from "@xterm/xterm";

export function openWithoutInlineStyles(terminal: Terminal, place: HTMLElement): void {
  const create = document.createElement;
  document.createElement = function (this: Document, name: string, options?: ElementCreationOptions): HTMLElement {
    return name.toLowerCase() === "style" ? diverted(create.call(this, "span")) : create.call(this, name, options);
  } as typeof document.createElement;
  try {
    terminal.open(place);
  } finally {
    document.createElement = create;
  }
}

/** Stands where the emulator wants its <style>: even an empty one would be refused. */
function diverted(element: HTMLElement): HTMLElement {
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const remove = element.remove;
  Object.defineProperty(element, "textContent", { set: (rules: string) => sheet.replaceSync(rules), get: () => "" });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove.call(element);
  };
  return element;
}
