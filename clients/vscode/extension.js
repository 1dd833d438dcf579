// The door VS Code opens. What happens behind it is in attach.mjs, which knows VS Code only by what it is given.
"use strict";

let attached;

exports.activate = async function activate(context) {
  const vscode = require("vscode");
  const { readFile } = require("node:fs/promises");
  const { Attach } = await import("./attach.mjs");
  const { connect, tokenIn } = await import("bridle-client");
  attached = new Attach({ vscode, connect, tokenIn, readFile });
  for (const [name, run] of Object.entries(attached.commands())) {
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  }
};

exports.deactivate = function deactivate() {
  return attached?.leave();
};
