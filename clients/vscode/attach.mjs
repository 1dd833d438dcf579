// A session of a running engine inside an editor: its events in an output channel, its questions as messages.

const YES = "Allow once";
const NO = "Deny";

export class Attach {
  constructor({ vscode, connect, tokenIn, readFile }) {
    this._vscode = vscode;
    this._connect = connect;
    this._tokenIn = tokenIn;
    this._readFile = readFile;
    this._channel = null;
    this._here = null;
  }

  /** What the palette offers. Whatever goes wrong is one message. */
  commands() {
    const told = (run) => () => run().catch((failure) => this._tell(failure));
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
    if (!file) {
      throw new Error("Set bridle.tokenFile to a file with a token: bridle token mint --session ID --out FILE");
    }
    const token = this._tokenIn(await this._readFile(file, "utf8"));
    const bridle = await this._connect({ url: settings.get("url"), token });
    try {
      this._here = await this._chosen(bridle);
    } finally {
      if (this._here === null) await bridle.close();
    }
    if (this._here === null) return;
    this._channel ??= this._vscode.window.createOutputChannel("Bridle");
    this._channel.show(true);
    this._here.following = this._follow(this._here);
  }

  async say() {
    const { bridle, session } = this._attached();
    const words = await this._vscode.window.showInputBox({ prompt: "What should it do?" });
    if (words) await bridle.say(session, words);
  }

  async cancel() {
    const { bridle, session } = this._attached();
    await bridle.cancel(session);
  }

  async leave() {
    const here = this._here;
    this._here = null;
    await here?.bridle.close();
    await here?.following;
  }

  /** The session a person picks, with the number of its last event so far; null if they pick none. */
  async _chosen(bridle) {
    const { sessions } = await bridle.ask({ kind: "ListSessions" });
    const rows = sessions.map((row) => ({ label: row.title || row.short_id, description: row.cwd, id: row.id }));
    const chosen = await this._vscode.window.showQuickPick(rows, { placeHolder: "Which session?" });
    if (!chosen) return null;
    const session = chosen.id;
    await bridle.send({ kind: "AttachSession", session });
    const { events } = await bridle.ask({ kind: "DescribeSession", session, events: 1 });
    return { bridle, session, past: events.at(-1)?.id ?? 0, questions: new Map(), following: null };
  }

  _attached() {
    if (this._here === null) throw new Error("No session is open here. Run: Bridle: Attach to a session");
    return this._here;
  }

  _tell(failure) {
    this._vscode.window.showErrorMessage(failure.message);
  }

  async _follow(here) {
    try {
      for await (const event of here.bridle.events(here.session)) this._take(here, event);
      this._channel.appendLine(this._here === here ? "[the session ended]" : "[left]");
    } catch (failure) {
      this._tell(failure);
    }
    if (this._here === here) this._here = null;
  }

  /** Questions of the past are put only if nobody has answered them since. */
  _take(here, event) {
    const { id, kind, payload, agent_path: path = [] } = event;
    if (path.length) this._showSent(event);
    else this._show(event);
    const asked = { question: payload, path };
    if (kind === "PermissionRequested") here.questions.set(payload.call_id, asked);
    if (kind === "PermissionDecided" || kind === "ToolResult") here.questions.delete(payload.call_id);
    if (id === here.past) for (const one of here.questions.values()) this._ask(here, one);
    else if (id > here.past && kind === "PermissionRequested") this._ask(here, asked);
  }

  /** Of an agent that was sent what it did, behind its path; its words are not the answer. */
  _showSent({ kind, payload, agent_path: path }) {
    if (kind !== "ToolResult") return;
    this._channel.appendLine(`  ${visible(path.join(" → "))}: ${payload.outcome.padEnd(8)} ${payload.tool}`);
  }

  _show({ kind, payload }) {
    switch (kind) {
      case "ChildStarted":
        this._channel.appendLine(`\nagent ${visible(payload.agent)}: ${visible(payload.task)}`);
        break;
      case "ChildEnded":
        this._channel.appendLine(`agent ${visible(payload.agent)}: ${payload.stop ?? "ended"}, ${payload.steps ?? 0} steps`);
        break;
      case "TextDelta":
        this._channel.append(payload.text);
        break;
      case "InputAccepted":
        this._channel.appendLine(`\n› ${textOf(payload.content)}`);
        break;
      case "ToolResult":
        this._channel.appendLine(`${payload.outcome.padEnd(8)} ${payload.tool}`);
        break;
      case "TurnEnded":
        this._channel.appendLine(`\n[${payload.message ?? payload.stop}]`);
        break;
    }
  }

  /** The whole of what would run stands in the message; closing it answers nothing. An editor cannot take a message
   * back, so a choice that comes after somebody else's answer is told to be late. */
  async _ask(here, asked) {
    const { question, path } = asked;
    const { call_id, tool, input, handoff } = question;
    const detail = visible(handoff ? handedOver(handoff) : JSON.stringify(input, null, 2));
    const who = visible([...path, tool].join(" → "));
    const title = `Bridle asks: ${who}. ${question.because || question.why}`;
    const chosen = await this._vscode.window.showWarningMessage(title, { modal: true, detail }, YES, NO);
    if (!chosen || this._here !== here) return;
    if (here.questions.get(call_id) !== asked) {
      this._vscode.window.showInformationMessage("This was answered elsewhere meanwhile. Nothing changed.");
      return;
    }
    try {
      await here.bridle.answer(here.session, question, chosen === YES ? "once" : "deny");
    } catch (failure) {
      this._tell(failure);
    }
  }
}

/** Which agent would be sent, with which model and tools, and all that it would be told. */
function handedOver({ agent, provider, model, tools = [], text }) {
  return `agent ${agent}\nprovider ${provider}\nmodel ${model}\ntools ${tools.join(", ") || "none"}\n\n${text}`;
}

function textOf(content) {
  return content.map((block) => block.text ?? `[${block.type}]`).join(" ");
}

/** Characters that are not seen, or that turn the order of others round, by their numbers. */
function visible(text) {
  return text.replace(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}
