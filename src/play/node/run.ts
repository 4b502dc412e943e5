/** Programs of this host that play needs: nsenter and iptables for Services, systemctl for cgroups. */
import { spawn } from "node:child_process";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";

const timeoutMs = 30_000;
const outputLimit = 64 * 1024;

/** Answers the output. `descriptor` becomes number 3 of the program, `input` its standard input. */
export async function run(
  program: string,
  words: readonly string[],
  descriptor?: number,
  input = "",
): Promise<string> {
  const stdio = ["pipe", "pipe", "pipe", ...(descriptor === undefined ? [] : [descriptor])] as const;
  const child = spawn(program, words, {
    stdio: [...stdio],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    env: { ...process.env, LC_ALL: "C" },
  });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8");
    child[name]?.on("data", (text: string) => {
      output[name] = (output[name] + text).slice(0, outputLimit);
    });
  }
  child.stdin?.on("error", () => undefined); // A program that ends early says why itself.
  child.stdin?.end(input);
  return new Promise((resolve, reject) => {
    child.on("error", (cause) => {
      const reason = hasCode(cause, "ENOENT") ? "not installed" : cause.message;
      reject(new ShimError("unknown", `run ${program}: ${reason}`, {}, { cause }));
    });
    child.on("close", (code, signal) => {
      if (code === 0) {
        resolve(output.stdout);
        return;
      }
      const status = code === null ? `ended by ${String(signal)}` : `exit status ${code}`;
      reject(new ShimError("unknown", `run ${program}: ${output.stderr.trim() || status}`));
    });
  });
}
