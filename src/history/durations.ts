/** Times as people read them. */

/** `120 ms`, `1.2 s`, `41 s`, `5 min`, `3 h 5 min`, `2 d 3 h`. */
export function formatSpan(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return withRest(hours, "h", minutes % 60, "min");
  return withRest(Math.floor(hours / 24), "d", hours % 24, "h");
}

function withRest(count: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${count} ${unit}` : `${count} ${unit} ${rest} ${restUnit}`;
}

/** `12:03:04` of today, else with the day; in UTC. */
export function formatTime(at: number, nowMs: number): string {
  const [day = "", time = ""] = new Date(at).toISOString().split("T");
  const [today] = new Date(nowMs).toISOString().split("T");
  return day === today ? time.slice(0, 8) : `${day} ${time.slice(0, 8)}`;
}
