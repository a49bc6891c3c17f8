// Shows HTML that came from inside a sandbox. This page has an origin that nothing else has, no right to ask any server, and a
// policy that lets no script run but this one; so the HTML is shown as it is.

const show = (event: MessageEvent): void => {
  if (event.source !== window.parent || typeof event.data?.html !== "string") return;
  document.body.classList.toggle("dark", event.data.dark === true);
  document.body.innerHTML = event.data.html;
  tell();
};

const tell = (): void => {
  window.parent.postMessage({ height: document.documentElement.scrollHeight }, "*");
};

window.addEventListener("message", show);
window.addEventListener("load", tell, true);
window.parent.postMessage({ ready: true }, "*");
