import eslint from "@eslint/js";
import { fileURLToPath } from "node:url";
import tseslint from "typescript-eslint";

/** What Node.js puts into the global scope and the scripts use. */
const nodeGlobals = Object.fromEntries(
  [
    "AbortController",
    "AbortSignal",
    "Buffer",
    "URL",
    "clearTimeout",
    "console",
    "process",
    "setImmediate",
    "setTimeout",
  ]
    .concat(["performance", "queueMicrotask", "structuredClone", "setInterval", "clearInterval", "fetch"])
    .map((name) => [name, "readonly"]),
);

export default tseslint.config(
  { ignores: ["dist/", "dist.next/", "node_modules/", ".cache/", "coverage/"] },
  eslint.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: fileURLToPath(new URL(".", import.meta.url)) },
    },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      // `() => doIt()` of a function without a result is how short callbacks are written here.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "@typescript-eslint/no-unnecessary-condition": ["error", { allowConstantLoopConditions: true }],
      // Many messages of CRI have no fields, and stand in signatures all the same.
      "@typescript-eslint/no-generated-empty-object-type": "off",
      eqeqeq: "error",
      // There are no enums here, only those of packages: this rule takes an eighth of the whole time to say nothing.
      "no-restricted-syntax": ["error", "TSEnumDeclaration"],
      "@typescript-eslint/no-unsafe-enum-assignment": "off",
    },
  },
  {
    files: ["src/domain/cri.ts"],
    // Generated: messages without fields are empty interfaces.
    rules: { "@typescript-eslint/no-empty-object-type": "off" },
  },
  {
    files: ["test/**/*.ts"],
    rules: {
      // node:test keeps account of the tests that it is given.
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          allowForKnownSafeCalls: [
            {
              from: "package",
              package: "node:test",
              name: ["test", "it", "describe", "suite", "before", "after", "beforeEach", "afterEach"],
            },
          ],
        },
      ],
      // Fakes implement the asynchronous methods of ports without waiting for anything, or not at all.
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/no-empty-function": "off",
      // Fakes stand in for classes; and in tests it costs as much as the next three rules together.
      "@typescript-eslint/no-unsafe-class-instance-assignment": "off",
      // What must be there in a test is asserted by using it.
      "@typescript-eslint/no-non-null-assertion": "off",
    },
  },
  {
    files: ["**/*.mjs", "**/*.js"],
    languageOptions: { globals: nodeGlobals },
  },
);
