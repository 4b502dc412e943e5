import {
  booleanKind,
  cidrKind,
  dualStackCidrsKind,
  durationKind,
  enumKind,
  imagePatternsKind,
  integerKind,
  logLevelKind,
  optional,
  pathKind,
  pathListKind,
} from "../../../src/shim/config/value-kinds.js";
import { testKind } from "./kinds.js";

testKind("booleanKind", booleanKind, {
  good: [
    ["true", true, true],
    ["T", true, true],
    ["1", true, true],
    ["false", false, false],
    ["False", false, false],
    ["0", false, false],
  ],
  bad: [
    ["", /true or false/],
    ["yes", /true or false/],
    ["tRUE", /true or false/],
  ],
});

testKind("integerKind", integerKind({ min: 68, max: 100, also: 0 }), {
  good: [
    ["0", 0, 0],
    ["68", 68, 68],
    ["+100", 100, 100],
  ],
  bad: [
    ["", /whole number/],
    ["1e2", /whole number/],
    ["70.0", /whole number/],
    ["67", /must be 0 or from 68 to 100/],
    ["101", /from 68 to 100/],
    ["-1", /from 68 to 100/],
    ["99999999999999999999", /from 68 to 100/],
  ],
});

testKind("durationKind without zero", durationKind(), {
  good: [["90s", 90_000, "1m30s"]],
  bad: [
    ["0", /more than 0/],
    ["0s", /more than 0/],
    ["x", /duration/],
  ],
});

testKind("durationKind with a meaning of zero", durationKind({ zeroMeansMs: 119_000 }), {
  good: [["0s", 119_000, "1m59s"]],
  bad: [],
});

testKind("enumKind", enumKind(["a", "b", "c"], { synonyms: { "": "b" }, hint: "not d" }), {
  good: [
    ["a", "a"],
    ["", "b", "b"],
  ],
  bad: [
    ["d", /must be "a", "b" or "c" \(not d\)/],
    ["toString", /must be/],
    ["A", /must be/],
  ],
});

testKind("optional", optional(pathKind), {
  good: [
    ["", undefined],
    ["/a", "/a"],
  ],
  bad: [["a", /absolute/]],
});

testKind("pathKind", pathKind, {
  good: [
    ["/", "/"],
    ["/a/b", "/a/b"],
    ["/a//b/./c/../d/", "/a/b/d", "/a/b/d"],
  ],
  bad: [
    ["", /empty/],
    ["a/b", /absolute/],
    ["./a", /absolute/],
    ["~/a", /absolute/],
    ["/a\0b", /NUL/],
  ],
});

testKind("pathListKind", pathListKind, {
  good: [
    ["/a", ["/a"], ["/a"]],
    ["/a, /b/,/a", ["/a", "/b"], ["/a", "/b"]],
  ],
  bad: [
    ["", /empty/],
    ["/a,", /empty/],
    ["/a,b", /absolute/],
  ],
});

testKind("cidrKind", cidrKind, {
  good: [
    ["10.0.0.0/8", "10.0.0.0/8"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["fd00::/64", "fd00::/64"],
    ["::/0", "::/0"],
  ],
  bad: [
    ["", /CIDR/],
    ["10.0.0.0", /CIDR/],
    ["10.0.0/8", /CIDR/],
    ["10.0.0.0/33", /CIDR/],
    ["fd00::/129", /CIDR/],
    ["fe80::1%eth0/64", /CIDR/],
    ["10.0.0.0/8/9", /CIDR/],
    ["10.0.0.0/8,fd00::/64", /CIDR/],
  ],
});

testKind("dualStackCidrsKind", dualStackCidrsKind, {
  good: [
    ["", [], []],
    ["10.1.0.0/16", ["10.1.0.0/16"], ["10.1.0.0/16"]],
    ["10.1.0.0/16, fd00::/64", ["10.1.0.0/16", "fd00::/64"], ["10.1.0.0/16", "fd00::/64"]],
  ],
  bad: [
    ["10.1.0.0/16,10.2.0.0/16", /at most one IPv4 and one IPv6/],
    ["10.1.0.0/16,fd00::/64,fd01::/64", /at most one/],
    ["10.1.0.0/16,", /CIDR/],
  ],
});

testKind("imagePatternsKind", imagePatternsKind, {
  good: [
    ["", [], []],
    ["busybox", ["busybox"], ["busybox"]],
    [
      "busybox, registry.example/*,*web*,busybox",
      ["busybox", "registry.example/*", "*web*"],
      ["busybox", "registry.example/*", "*web*"],
    ],
  ],
  bad: [
    ["busybox,", /^pattern "" is not an image reference$/],
    ["busybox,a*b", /^pattern "a\*b" may have a \* at its end/],
  ],
});

testKind("logLevelKind", logLevelKind, {
  good: [
    ["panic", "fatal", "fatal"],
    ["fatal", "fatal"],
    ["error", "error"],
    ["warn", "warn"],
    ["warning", "warn", "warn"],
    ["info", "info"],
    ["INFO", "info", "info"],
    ["", "info", "info"],
    ["debug", "debug"],
    ["trace", "trace"],
  ],
  bad: [
    ["verbose", /must be one of panic, fatal/],
    ["silent", /must be one of/],
    ["constructor", /must be one of/],
  ],
});
