// Says that the console could not be loaded, and loads it again. This is no module, so that it runs before all of them.
const pause = 5; // s

addEventListener("error", ({ target }) => {
  if (target !== window && target.tagName !== "SCRIPT" || document.querySelector("main")) return; // the console runs
  const element = (name, text, rest) => Object.assign(document.createElement(name), { textContent: text, ...rest });
  const panel = element("div", "", { className: "panel" });
  panel.append(
    element("h1", "The console could not be loaded"),
    element(
      "p",
      `The service has not sent all its files, or this browser is too old. The page is loaded again in ${pause} s.`),
    element("button", "Try again", { onclick: () => location.reload() }),
  );
  const main = element("main", "", { className: "signin", role: "alert" });
  main.append(panel);
  document.body.append(main);
  setTimeout(() => location.reload(), pause * 1000);
}, true);
