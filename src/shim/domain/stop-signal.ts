/** Stop signals and stop timeouts between the CRI and Docker. */
import { Signal } from "./cri.js";

/** The longest grace period that is sent to the engine: a year, in seconds. */
const longestTimeoutSeconds = 365 * 24 * 3600;

/** Seconds of a stop request; 0 kills at once, and so does less: Docker would wait without end for a negative number. */
export function stopTimeoutSeconds(timeout: string): number {
  return Math.min(Math.max(0, Number(timeout)), longestTimeoutSeconds);
}

/** `SIGNAL_SIGRTMINPLUS3` is Docker's `SIGRTMIN+3`, `SIGNAL_SIGRTMAXMINUS2` its `SIGRTMAX-2`. */
const entries = Object.entries(Signal).map(([name, number]) => {
  const word = name.replace(/^SIGNAL_/, "");
  return { docker: word.replace("PLUS", "+").replace("MINUS", "-"), number };
});
const numberOfName = new Map(entries.map(({ docker, number }) => [docker, number]));
const nameOfNumber = new Map(entries.map(({ docker, number }) => [number as number, docker]));

/** Signal numbers that images use instead of names; Linux numbers on all architectures that Docker runs on. */
const nameOfLinuxNumber: Readonly<Record<string, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  3: "SIGQUIT",
  6: "SIGABRT",
  9: "SIGKILL",
  10: "SIGUSR1",
  12: "SIGUSR2",
  14: "SIGALRM",
  15: "SIGTERM",
  28: "SIGWINCH",
};

/** Docker's name of a CRI signal; undefined for the runtime's default and for numbers nobody knows. */
export function stopSignalName(signal: number): string | undefined {
  return signal === 0 ? undefined : nameOfNumber.get(signal);
}

/** The CRI's number of a name (`SIGTERM`, `TERM`, `SIGRTMIN+3`) or Linux number (`15`); 0 when there is none. */
export function stopSignalNumber(text: string): Signal {
  const upper = (nameOfLinuxNumber[text] ?? text).toUpperCase();
  return numberOfName.get(upper.startsWith("SIG") ? upper : `SIG${upper}`) ?? 0;
}
