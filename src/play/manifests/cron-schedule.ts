/** Schedules of CronJobs as Kubernetes reads them (robfig/cron). `@every` counts from the epoch. */

export interface CronSchedule {
  /** Whether a job is due in the minute that begins at `minute`, in milliseconds since the epoch. */
  matches(minute: number): boolean;
}

const minuteMs = 60_000;

interface FieldRule {
  readonly name: string;
  readonly minimum: number;
  readonly maximum: number;
  readonly words?: readonly string[];
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const weekdays = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const rules: readonly FieldRule[] = [
  { name: "minute", minimum: 0, maximum: 59 },
  { name: "hour", minimum: 0, maximum: 23 },
  { name: "day of the month", minimum: 1, maximum: 31 },
  { name: "month", minimum: 1, maximum: 12, words: months },
  { name: "day of the week", minimum: 0, maximum: 6, words: weekdays },
];

const descriptors: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

/** Throws a RangeError that says what is wrong. `timeZone`: a name of the IANA database. */
export function parseSchedule(text: string, timeZone?: string): CronSchedule {
  const every = /^@every (.+)$/.exec(text);
  if (every !== null) {
    const minutes = everyMinutes(every[1] ?? "");
    return { matches: (minute) => Math.floor(minute / minuteMs) % minutes === 0 };
  }
  const parts = (descriptors[text] ?? text).trim().split(/\s+/);
  if (parts.length !== rules.length) throw new RangeError("must have five fields, as in 30 2 * * 1-5");
  const fields = rules.map((rule, index) => parseField(parts[index] ?? "", rule));
  const [minutes, hours, days, ofMonths, ofWeek] = fields;
  const clock = new Intl.DateTimeFormat("en-US", {
    ...(timeZone === undefined ? {} : { timeZone }),
    hourCycle: "h23",
    minute: "numeric",
    hour: "numeric",
    day: "numeric",
    month: "numeric",
    weekday: "short",
  });
  return {
    matches: (minute) => {
      const now = Object.fromEntries(clock.formatToParts(minute).map(({ type, value }) => [type, value]));
      const has = (field: Field | undefined, value: string | undefined): boolean =>
        field?.values.has(Number(value)) ?? false;
      const day = has(days, now["day"]);
      const weekday = ofWeek?.values.has(weekdays.indexOf(now["weekday"]?.toLowerCase() ?? "")) ?? false;
      // When both days are given, one of them is enough.
      const isDay = days?.isAny === true || ofWeek?.isAny === true ? day && weekday : day || weekday;
      return has(minutes, now["minute"]) && has(hours, now["hour"]) && has(ofMonths, now["month"]) && isDay;
    },
  };
}

/** The last minute in (after, until] in which a job is due, within 100 days, in milliseconds. */
export function lastDue(schedule: CronSchedule, after: number, until: number): number | undefined {
  const first = Math.max(after, until - 100 * 24 * 60 * minuteMs);
  for (let minute = Math.floor(until / minuteMs) * minuteMs; minute > first; minute -= minuteMs) {
    if (schedule.matches(minute)) return minute;
  }
  return undefined;
}

interface Field {
  readonly values: ReadonlySet<number>;
  /** Begins with `*` or `?`. */
  readonly isAny: boolean;
}

function parseField(text: string, rule: FieldRule): Field {
  const values = new Set<number>();
  let isAny = false;
  for (const part of text.split(",")) {
    const match = /^(\*|\?|[0-9a-z]+)(?:-([0-9a-z]+))?(?:\/(\d{1,4}))?$/i.exec(part);
    const fail = (): never => {
      const range = `${rule.minimum} to ${rule.maximum}`;
      throw new RangeError(
        `the ${rule.name} must be *, or numbers from ${range}, not ${JSON.stringify(part)}`,
      );
    };
    if (match === null) return fail();
    const [, from = "", to, step] = match;
    const all = from === "*" || from === "?";
    if (all && to !== undefined) return fail();
    const first = all ? rule.minimum : valueOf(from, rule);
    // `5/10` means from 5 on.
    const last = all || (to === undefined && step !== undefined) ? rule.maximum : valueOf(to ?? from, rule);
    const by = Number(step ?? 1);
    if (first === undefined || last === undefined || first > last || by === 0) return fail();
    for (let value = first; value <= last; value += by) values.add(value);
    isAny ||= all && by === 1;
  }
  return { values, isAny };
}

function valueOf(text: string, { minimum, maximum, words }: FieldRule): number | undefined {
  const word = words?.indexOf(text.toLowerCase()) ?? -1;
  const value = word >= 0 ? word + minimum : /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  return value >= minimum && value <= maximum ? value : undefined;
}

function everyMinutes(duration: string): number {
  const match = /^(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?$/.exec(duration);
  const [hours = 0, minutes = 0, seconds = 0] = (match ?? [])
    .slice(1)
    .map((part: string | undefined) => Number(part ?? 0));
  const sum = hours * 60 + minutes + seconds / 60;
  if (match === null || sum === 0 || !Number.isInteger(sum))
    throw new RangeError("@every needs a duration of whole minutes");
  return sum;
}

/** The reason to refuse a schedule. */
export function schedule(text: string): string | undefined {
  if (/TZ=/.test(text)) return "must not contain a time zone: use timeZone";
  try {
    parseSchedule(text);
    return undefined;
  } catch (error) {
    if (error instanceof RangeError) return error.message;
    throw error;
  }
}

/** The reason to refuse a time zone. */
export function timeZone(name: string): string | undefined {
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: name });
    return name.toLowerCase() === "local" ? "must be a name of the IANA database" : undefined;
  } catch {
    // The constructor throws for unknown names only.
    return "must be a name of the IANA database, such as Europe/Berlin";
  }
}
