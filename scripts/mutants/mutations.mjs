/** The small faults that `npm run mutants` makes, and the source that has all of them, each off. */
import ts from "typescript";

/**
 * @typedef {{ start: number, end: number, line: string, original: string, replacement: string, nth: number }} Mutation
 *   `line`: the text of the line in which it begins; `nth`: among those of the file with the same three texts. So a stored one
 *   is found again when lines have moved
 */

const operators = [..."=== !==,< <=,> >=,&& ||,+ -,* /".split(",")].map((pair) => pair.split(" "));
const otherOperator = new Map(operators.flatMap(([a = "", b = ""]) => [[a, b], [b, a]])); // prettier-ignore

/**
 * All mutations of a source.
 * @param {string} text
 * @returns {Mutation[]}
 */
export function mutationsOf(text) {
  const file = ts.createSourceFile("source.ts", text, ts.ScriptTarget.Latest, true);
  /** @type {Mutation[]} */
  const found = [];
  /** @type {(node: ts.Node, ...replacements: string[]) => void} */
  const add = (node, ...replacements) => {
    const [start, end] = [node.getStart(file), node.end];
    const original = text.slice(start, end);
    const line =
      text
        .slice(text.lastIndexOf("\n", start) + 1)
        .split("\n", 1)[0]
        ?.trim() ?? "";
    for (const replacement of replacements.filter((candidate) => candidate !== original)) {
      const nth = found.filter((one) => isSame(one, { line, original, replacement })).length;
      found.push({ start, end, line, original, replacement, nth });
    }
  };
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isBinaryExpression(node)) {
      const [left, right] = [node.left.getText(file), node.right.getText(file)];
      const other = otherOperator.get(node.operatorToken.getText(file));
      const joinsText = other === "-" && [node.left, node.right].some((side) => ts.isStringLiteralLike(side));
      if (other !== undefined && !joinsText) add(node, `(${left}) ${other} (${right})`);
      if (node.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken) add(node, left);
    } else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken) {
      add(node, node.operand.getText(file));
    } else if (node.kind === ts.SyntaxKind.TrueKeyword || node.kind === ts.SyntaxKind.FalseKeyword) {
      add(node, String(node.kind === ts.SyntaxKind.FalseKeyword));
    } else if (ts.isNumericLiteral(node) && !("name" in node.parent && node.parent.name === node)) {
      add(node, `${node.getText(file)} + 1`);
    } else if (ts.isIfStatement(node)) {
      add(node.expression, "true", "false");
    } else if (ts.isConditionalExpression(node)) {
      add(node.condition, "true", "false");
    } else if (ts.isExpressionStatement(node)) {
      if (isEffect(node.expression)) add(node.expression, "undefined");
    } else if (ts.isReturnStatement(node) && node.expression !== undefined) {
      add(node.expression, "undefined");
    } else if (ts.isArrowFunction(node) && !ts.isBlock(node.body)) {
      add(node.body, "undefined");
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/**
 * Whether a statement does something that can be left out.
 * @param {ts.Expression} expression
 */
function isEffect(expression) {
  if (ts.isCallExpression(expression)) return expression.expression.kind !== ts.SyntaxKind.SuperKeyword;
  if (!ts.isBinaryExpression(expression))
    return ts.isAwaitExpression(expression) || ts.isVoidExpression(expression);
  const { kind } = expression.operatorToken;
  return kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment;
}

/** @type {(a: Omit<Mutation, "start" | "end" | "nth">, b: Omit<Mutation, "start" | "end" | "nth">) => boolean} */
const isSame = (a, b) => a.line === b.line && a.original === b.original && a.replacement === b.replacement;

/**
 * The first `count` of a shuffled list that do not overlap: the same ones for the same list and seed.
 * @template {{ file: string, start: number, end: number }} T
 * @param {readonly T[]} candidates
 * @param {{ count: number, seed: number }} options
 */
export function sample(candidates, { count, seed }) {
  let state = seed;
  const random = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const shuffled = candidates.map((candidate) => ({ candidate, at: random() })).sort((a, b) => a.at - b.at);
  /** @type {T[]} */
  const chosen = [];
  for (const { candidate: next } of shuffled) {
    const overlaps = (/** @type {T} */ one) =>
      one.file === next.file && one.start < next.end && next.start < one.end;
    if (chosen.length < count && !chosen.some(overlaps)) chosen.push(next);
  }
  return chosen;
}

/**
 * Where a stored mutation is now: in the same file, else in one of the same name, else in any; undefined when its line is gone.
 * @template {Mutation & { file: string }} T
 * @param {Omit<Mutation, "start" | "end"> & { file: string }} stored
 * @param {readonly T[]} candidates
 */
export function locate(stored, candidates) {
  const same = candidates.filter((candidate) => isSame(candidate, stored));
  const name = (/** @type {string} */ file) => file.slice(file.lastIndexOf("/"));
  const there = same.filter(({ file }) => file === stored.file);
  const namesake = same.filter(({ file }) => name(file) === name(stored.file));
  const list = [there, namesake, same].find(({ length }) => length > 0);
  return list?.find(({ nth }) => nth === stored.nth) ?? list?.[0];
}

/**
 * A stored mutant where it is now, without the result of the run that stored it: "gone" when it is nowhere.
 * @template {Mutation & { file: string, result?: string, by?: string }} T
 * @param {T} stored
 * @param {readonly T[]} candidates
 * @returns {T}
 */
export function relocated(stored, candidates) {
  const found = locate(stored, candidates);
  return { ...stored, ...found, result: found === undefined ? "gone" : undefined, by: undefined };
}

/**
 * The source with these mutations; `globalThis.$mutant` of switch.mjs says which one is on.
 * @param {string} text
 * @param {readonly (Omit<Mutation, "line" | "nth"> & { id: number })[]} mutants that do not overlap
 */
export function instrument(text, mutants) {
  let result = text;
  for (const { id, start, end, original, replacement } of [...mutants].sort((a, b) => b.start - a.start)) {
    const choice = `(globalThis.$mutant?.(${String(id)}) ? (${replacement}) : (${original}))`;
    result = result.slice(0, start) + choice + result.slice(end);
  }
  return result;
}
