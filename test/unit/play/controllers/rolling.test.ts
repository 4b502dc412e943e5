import assert from "node:assert/strict";
import { test } from "node:test";
import { type Rolling, type RollingPod, decideRolling } from "../../../../src/play/controllers/rolling.js";

/** `o`ld, `u`nready old, `b`roken old, `N`ew and available, `n`ew and not yet, `-` missing. */
function podsOf(states: string, prefix = ""): readonly RollingPod[] {
  return Array.from(states, (state, index) => ({
    name: `${prefix}${index}`,
    revision: state === "-" ? "missing" : state.toLowerCase() === "n" ? "new" : "old",
    isAvailable: state === "o" || state === "N",
    isBroken: state === "b",
  }));
}

const rolling = (maxUnavailable: number): Rolling => ({
  type: "RollingUpdate",
  isOrdered: false,
  maxUnavailable,
});
const ordered = (maxUnavailable: number): Rolling => ({ ...rolling(maxUnavailable), isOrdered: true });
const recreate: Rolling = { ...rolling(1), type: "Recreate" };

type Row = readonly [what: string, rolling: Rolling, pods: string, surge: string, does: string];
// `does`: pods to make, `-` pods to remove, `over`.
const rows: readonly Row[] = [
  ["a surge pod is made before an old one goes", rolling(0), "ooo", "-", "s0"],
  ["an old one waits until the surge pod is available", rolling(0), "ooo", "n", ""],
  ["an available surge pod sets one free, from the highest", rolling(0), "ooo", "N", "2"],
  ["one pod after the other", rolling(0), "ooN", "N", "1"],
  ["not beyond one that is not available yet", rolling(0), "oon", "N", ""],
  ["surge pods stay until the last is available", rolling(0), "nNN", "N", ""],
  ["and go then", rolling(0), "NNN", "N", "-s0"],
  ["and then all is over", rolling(0), "NNN", "-", "over"],
  ["maxUnavailable and maxSurge add up", rolling(1), "oooo", "-", "s0 3"],
  ["with both, as many are under way", rolling(1), "ooon", "N", "2"],
  ["maxUnavailable alone", rolling(2), "oooo", "", "3 2"],
  ["without either, one at a time", rolling(0), "ooo", "", "2"],
  ["without either, one waits for the other", rolling(0), "oon", "", ""],
  ["no more surge pods than old ones", rolling(0), "NNo", "--", "s0"],
  ["a broken pod costs nothing", rolling(0), "obo", "-", "s0 1"],
  ["a broken pod comes first, and uses up what may lack", rolling(1), "obo", "", "1"],
  ["a pod that may be about to be ready is not broken", rolling(1), "ouo", "", ""],
  ["nothing goes while it is not known what is ready", rolling(1), "uuu", "", ""],
  ["a surge pod of an earlier change follows, too", rolling(0), "ooo", "u", "s0"],
  ["an available one of an earlier change within the limit", rolling(0), "ooo", "o", "s0"],
  ["a pod that is missing counts as one that lacks", rolling(1), "oo-", "", ""],
  ["all at once when all may lack", rolling(3), "ooo", "", "2 1 0"],

  ["a stateful set begins with the highest ordinal", ordered(1), "ooo", "", "2"],
  ["and waits for it", ordered(1), "oon", "", ""],
  ["and goes on", ordered(1), "ooN", "", "1"],
  ["down to the lowest", ordered(1), "oNN", "", "0"],
  ["and ends", ordered(1), "NNN", "", "over"],
  ["a broken one of before is made anew in its turn", ordered(1), "oob", "", "2"],
  ["one that is not ready holds the others up", ordered(1), "uoo", "", ""],
  ["unless it is broken: it goes first", ordered(1), "boo", "", "0"],
  ["but not beside one that is under way", ordered(1), "bon", "", ""],
  ["a broken one goes also when those after it were never made", ordered(1), "b--", "", "0"],
  ["none goes while one is missing", ordered(1), "oo-", "", ""],
  ["maxUnavailable of a stateful set", ordered(2), "oooo", "", "3 2"],
  ["never more than that, broken ones with them", ordered(2), "bbbo", "", "2 1"],

  ["Recreate removes all first", recreate, "oob", "", "-2 -1 -0"],
  ["those that are gone are not made while one is left", recreate, "o--", "", "-0"],
  ["and makes all then", recreate, "---", "", "0 1 2"],
  ["and waits", recreate, "nNN", "", ""],
  ["and ends, too", recreate, "NNN", "", "over"],
];

for (const [what, strategy, pods, surge, does] of rows)
  test(`decideRolling(): ${what} (${pods}${surge === "" ? "" : ` + ${surge}`})`, () => {
    const { make, remove, isOver } = decideRolling(strategy, podsOf(pods), [], podsOf(surge, "s"));
    const all = [...make, ...remove.map((name) => `-${name}`), ...(isOver ? ["over"] : [])];
    assert.equal(all.join(" "), does);
  });

test("decideRolling() counts pods that stay as they are, and leaves them", () => {
  const [low, high] = [podsOf("oo"), podsOf("oo", "1")];
  const is = (staying: string): readonly string[] =>
    decideRolling(ordered(1), high, podsOf(staying), []).make;
  assert.deepEqual(is("oo"), ["11"]);
  assert.deepEqual(is("ou"), []);
  assert.equal(decideRolling({ ...ordered(1), type: "OnDelete" }, [], low, []).isOver, true);
});
