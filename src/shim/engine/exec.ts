/** Exec and attach: processes in containers, whose streams the engine hands over by hijacking the connection. */
import type { ExecCalls } from "../ports/engine.js";
import type { TerminalSize } from "../ports/streaming.js";
import { type EngineClient, refusalOf } from "./http/client.js";
import { asObject, flagOf, numberOf } from "../../lib/json/json-readers.js";
import { type Essentials, members } from "./http/json-stream.js";
import { openProcessStreams } from "./http/process-streams.js";

/** Fields read of `GET /exec/{id}/json`, which holds the command itself, too. */
const execEssentials: Essentials = members("Running", "ExitCode", "Pid");

/**
 * Ends no session: nobody types this. Without it the engine takes ctrl-p ctrl-q for the end of a session with a
 * terminal, and it refuses an empty one. It keeps back what may be the beginning, so the first key is one that
 * hardly means anything without a further one.
 */
const detachKeys = "ctrl-@,ctrl-^,ctrl-_,ctrl-^,ctrl-@,ctrl-_,ctrl-@,ctrl-^";

export function execCalls(client: EngineClient): ExecCalls {
  const resize = async (
    subject: string,
    path: readonly string[],
    { columns, rows }: TerminalSize,
    signal: AbortSignal,
  ): Promise<void> => {
    const action = `resize the terminal of ${subject}`;
    const query = { w: String(columns), h: String(rows) };
    const answer = await client.request({ action, method: "POST", path: [...path, "resize"], query }, signal);
    if (answer.status !== 200 && answer.status !== 201) throw refusalOf(answer);
  };

  return {
    async createExec(containerId, { command, env, tty, stdin, stdout, stderr }, signal) {
      const json = {
        Cmd: command,
        // Left out of the JSON when they are undefined.
        Env: env,
        DetachKeys: tty ? detachKeys : undefined,
        Tty: tty,
        AttachStdin: stdin,
        AttachStdout: stdout,
        AttachStderr: stderr,
      };
      const action = `create exec in container "${containerId}"`;
      return client.createdId(
        { action, method: "POST", path: ["containers", containerId, "exec"], json },
        signal,
      );
    },

    /** The streams, too, end when `signal` aborts. */
    async startExec(execId, options, signal) {
      const json = { Detach: false, Tty: options.tty };
      const action = `start exec "${execId}"`;
      const socket = await client.hijack(
        { action, method: "POST", path: ["exec", execId, "start"], json },
        signal,
      );
      return openProcessStreams(socket, options, signal);
    },

    async resizeExec(execId, size, signal) {
      await resize(`exec "${execId}"`, ["exec", execId], size, signal);
    },

    async inspectExec(execId, signal) {
      const answer = await client.jsonIfThere(
        {
          action: `inspect exec "${execId}"`,
          method: "GET",
          path: ["exec", execId, "json"],
          essentials: execEssentials,
        },
        signal,
      );
      if (answer === undefined) return undefined;
      const json = asObject(answer);
      const exitCode = json["ExitCode"];
      return {
        running: flagOf(json, "Running"),
        exitCode: typeof exitCode === "number" ? exitCode : undefined,
        pid: numberOf(json, "Pid"),
      };
    },

    async attachContainer(id, options, signal) {
      const flag = (value: boolean): string => (value ? "1" : "0");
      const query = {
        stream: "1",
        logs: "0",
        stdin: flag(options.stdin),
        stdout: flag(options.stdout),
        stderr: flag(options.stderr),
        ...(options.tty ? { detachKeys } : {}),
      };
      const action = `attach to container "${id}"`;
      const socket = await client.hijack(
        { action, method: "POST", path: ["containers", id, "attach"], query },
        signal,
      );
      return openProcessStreams(socket, options, signal);
    },

    async resizeContainer(id, size, signal) {
      await resize(`container "${id}"`, ["containers", id], size, signal);
    },
  };
}
