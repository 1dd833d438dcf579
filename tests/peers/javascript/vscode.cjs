// As much of VS Code as the extension uses: what it shows is kept, and what a person does is told beforehand.
"use strict";

const registered = new Map();
const waiting = new Set();

const editor = {
  settings: {},
  pick: (rows) => rows[0],
  words: undefined,
  text: "",
  errors: [],
  notices: [],
  questions: [],
  offered: [],
  names: () => [...registered.keys()],
  run: (name) => registered.get(name)(),
  /** Until what was shown fits. */
  until: (fits) =>
    new Promise((over) => {
      waiting.add({ fits, over });
      shown();
    }),
};

function shown() {
  for (const one of waiting) {
    if (one.fits(editor)) {
      waiting.delete(one);
      one.over();
    }
  }
}

function keep(list, entry) {
  list.push(entry);
  shown();
}

module.exports = {
  editor,
  commands: {
    registerCommand(name, run) {
      registered.set(name, run);
      return { dispose: () => registered.delete(name) };
    },
  },
  workspace: { getConfiguration: (section) => ({ get: (name) => editor.settings[`${section}.${name}`] }) },
  window: {
    createOutputChannel: () => ({
      show() {},
      append(text) {
        editor.text += text;
        shown();
      },
      appendLine(text) {
        this.append(`${text}\n`);
      },
    }),
    showErrorMessage: (message) => keep(editor.errors, message),
    showInformationMessage: (message) => keep(editor.notices, message),
    async showQuickPick(rows) {
      editor.offered = rows;
      return editor.pick(rows);
    },
    showInputBox: async () => editor.words,
    showWarningMessage: (title, options, ...choices) =>
      new Promise((choose) => keep(editor.questions, { title, ...options, choices, choose })),
  },
};
