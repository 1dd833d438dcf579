// A session of a running engine inside an editor: its events in an output channel, its questions as messages.

const YES = "Allow once";
const NO = "Deny";

export class Attach {
  constructor({ vscode, connect, readFile }) {
    this._vscode = vscode;
    this._connect = connect;
    this._readFile = readFile;
    this._bridle = null;
    this._session = null;
    this._channel = null;
    this._open = new Map();
  }

  /** What the palette offers. Whatever goes wrong is one message. */
  commands() {
    const told = (run) => () => run().catch((failure) => this._vscode.window.showErrorMessage(failure.message));
    return {
      "bridle.attach": told(() => this.attach()),
      "bridle.say": told(() => this.say()),
      "bridle.cancel": told(() => this.cancel()),
      "bridle.detach": told(() => this.leave()),
    };
  }

  /** Asks which session, then shows it until it ends or we leave. */
  async attach() {
    await this.leave();
    const settings = this._vscode.workspace.getConfiguration("bridle");
    const file = settings.get("tokenFile");
    if (!file) throw new Error("Set bridle.tokenFile to a file with a token: bridle token mint --out FILE");
    const token = (await this._readFile(file, "utf8")).trim();
    const bridle = await this._connect({ url: settings.get("url"), token, name: "VS Code" });
    const { sessions } = await bridle.ask({ kind: "ListSessions" });
    const rows = sessions.map((row) => ({ label: row.title || row.short_id, description: row.cwd, id: row.id }));
    const chosen = await this._vscode.window.showQuickPick(rows, { placeHolder: "Which session?" });
    if (!chosen) {
      await bridle.close();
      return;
    }
    await bridle.send({ kind: "AttachSession", session: chosen.id });
    this._bridle = bridle;
    this._session = chosen.id;
    this._channel ??= this._vscode.window.createOutputChannel("Bridle");
    this._channel.show(true);
    this._following = this._follow(bridle, chosen.id);
  }

  async say() {
    const { bridle, session } = this._here();
    const words = await this._vscode.window.showInputBox({ prompt: "What should it do?" });
    if (words) await bridle.say(session, words);
  }

  async cancel() {
    const { bridle, session } = this._here();
    await bridle.cancel(session);
  }

  async leave() {
    await this._bridle?.close();
    this._bridle = null;
    this._session = null;
    this._open.clear();
    await this._following;
  }

  _here() {
    if (!this._bridle) throw new Error("No session is open here. Run: Bridle: Attach to a session");
    return { bridle: this._bridle, session: this._session };
  }

  async _follow(bridle, session) {
    try {
      for await (const event of bridle.events(session)) this._show(bridle, session, event);
      this._channel.appendLine("[the session ended]");
    } catch (failure) {
      this._channel.appendLine(`[${failure.message}]`);
    }
  }

  _show(bridle, session, { kind, payload }) {
    switch (kind) {
      case "TextDelta":
        this._channel.append(payload.text);
        break;
      case "InputAccepted":
        this._channel.appendLine(`\n› ${textOf(payload.content)}`);
        break;
      case "ToolResult":
        this._channel.appendLine(`${payload.outcome.padEnd(8)} ${payload.tool}`);
        break;
      case "PermissionRequested":
        this._ask(bridle, session, payload);
        break;
      case "PermissionDecided":
        this._open.delete(payload.call_id);
        break;
      case "TurnEnded":
        this._channel.appendLine(`\n[${payload.stop}]`);
        break;
    }
  }

  /** The whole of what would run stands in the message; closing it answers nothing. */
  async _ask(bridle, session, question) {
    this._open.set(question.call_id, question);
    const detail = JSON.stringify(question.input, null, 2);
    const title = `Bridle asks: ${question.tool}. ${question.because || question.why}`;
    const chosen = await this._vscode.window.showWarningMessage(title, { modal: true, detail }, YES, NO);
    if (!chosen || this._open.get(question.call_id) !== question) return;
    try {
      await bridle.answer(session, question, chosen === YES ? "once" : "deny");
    } catch (failure) {
      this._vscode.window.showInformationMessage(failure.message);
    }
  }
}

function textOf(content) {
  return content.map((block) => block.text ?? `[${block.type}]`).join(" ");
}
