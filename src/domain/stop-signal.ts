/** Stop signals, stop timeouts and grace periods between the CRI and Docker. */
import { Signal } from "./cri.js";
import { gracePeriodAnnotation, type Labels } from "./labels.js";

/** The longest grace period that is sent to the engine: a year, in seconds. */
const longestTimeoutSeconds = 365 * 24 * 3600;

/** Seconds of a stop request. 0 and less kill at once: with a negative number Docker would wait for ever. */
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

/** Docker's name of a CRI signal; undefined for the runtime's default and for unknown numbers. */
export function stopSignalName(signal: number): string | undefined {
  return signal === 0 ? undefined : nameOfNumber.get(signal);
}

/** The CRI's number of a name (`SIGTERM`, `TERM`, `SIGRTMIN+3`) or Linux number (`15`); 0 when there is none. */
export function stopSignalNumber(text: string): Signal {
  const upper = (nameOfLinuxNumber[text] ?? text).toUpperCase();
  return numberOfName.get(upper.startsWith("SIG") ? upper : `SIG${upper}`) ?? 0;
}

/** The kubelet's own minimum, also for pods with a grace period of 0. */
const minimumGraceSeconds = 2;
/** systemd forces a reboot that hangs after this time: no pod can delay the node's end for longer. */
const maximumGraceSeconds = 30 * 60;

/**
 * How long a container may take to end when the engine or the node stops: the pod's
 * terminationGracePeriodSeconds, which kubelets write into an annotation of containers, within these bounds.
 * Undefined for other clients: then the engine's default of 10 s applies.
 */
export function gracePeriodSeconds(annotations: Labels): number | undefined {
  const text = annotations[gracePeriodAnnotation] ?? "";
  if (!/^-?\d{1,19}$/.test(text)) return undefined;
  return Math.min(Math.max(Number(text), minimumGraceSeconds), maximumGraceSeconds);
}
