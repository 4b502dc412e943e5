/** Which fields of CRI messages the program reads, by the types of the expressions and not by the names in them. */
import { join } from "node:path";
import ts from "typescript";
import { repository } from "./request-messages.js";

const messages = join(repository, "src", "domain", "cri.ts");
/** What answers calls: everything that it imports. Other commands make requests, or show options, and answer none. */
const server = join(repository, "src", "shim", "serve", "serve-command.ts");

/**
 * `Message.field` for every property of an interface of cri.ts that is read: `a.field`, `a["field"]`, `{ field } = a`,
 * also through Pick and other mapped types, and also by a function that takes the message as a type of its own with the
 * same property, if its file imports the messages, directly or through others. Making a message is no read.
 */
export function fieldReads(): ReadonlySet<string> {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.NodeNext,
    strict: true,
    skipLibCheck: true,
    // Without the declarations of browsers, which are as long as those of the program.
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    types: ["node"],
  };
  const host = ts.createCompilerHost(options);
  host.jsDocParsingMode = ts.JSDocParsingMode.ParseNone;
  const importers = new Map<string, Set<string>>();
  host.resolveModuleNameLiterals = (literals, importer) =>
    literals.map(({ text }) => {
      // No message comes from a package: their declarations take a third of the time.
      if (!text.startsWith(".")) return { resolvedModule: undefined };
      const resolved = ts.resolveModuleName(text, importer, options, host);
      const path = resolved.resolvedModule?.resolvedFileName ?? "";
      importers.set(path, (importers.get(path) ?? new Set()).add(importer));
      return resolved;
    });
  const program = ts.createProgram([server], options, host);
  // Only files that import the messages, directly or through others, can have one.
  const reaching = new Set([messages]);
  for (const path of reaching) for (const importer of importers.get(path) ?? []) reaching.add(importer);
  const reads = new Reads(program.getTypeChecker(), namesIn(program.getSourceFile(messages)));
  for (const file of program.getSourceFiles())
    if (reaching.has(file.fileName) && file.fileName !== messages) reads.visit(file);
  return reads.ofMessages();
}

/** The names of all properties of its interfaces. */
function namesIn(file: ts.SourceFile | undefined): ReadonlySet<string> {
  const interfaces = file?.statements.filter((statement) => ts.isInterfaceDeclaration(statement)) ?? [];
  return new Set(interfaces.flatMap(({ members }) => members.map(({ name }) => name?.getText() ?? "")));
}

class Reads {
  readonly #read = new Set<ts.Declaration>();
  /** The property of a parameter's type → those of the messages that were passed for it. */
  readonly #passed = new Map<ts.Declaration, Set<ts.Declaration>>();

  /** Types are asked for only where one of `names` is read, for most of a program's expressions have none. */
  constructor(
    private readonly checker: ts.TypeChecker,
    private readonly names: ReadonlySet<string>,
  ) {}

  visit(node: ts.Node): void {
    const { checker } = this;
    if (ts.isPropertyAccessExpression(node)) {
      this.#note(node.expression, node.name.text);
    } else if (ts.isElementAccessExpression(node)) {
      const keys = partsOf(checker.getTypeAtLocation(node.argumentExpression));
      for (const key of keys) if (key.isStringLiteral()) this.#note(node.expression, key.value);
    } else if (ts.isBindingElement(node) && ts.isObjectBindingPattern(node.parent)) {
      const name = node.propertyName ?? node.name;
      if (ts.isIdentifier(name)) this.#note(node.parent, name.text);
    } else if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
      for (const argument of node.arguments ?? []) this.#pass(argument);
    }
    ts.forEachChild(node, (child) => this.visit(child));
  }

  ofMessages(): ReadonlySet<string> {
    const queue = [...this.#read];
    const seen = new Set(queue);
    const names = new Set<string>();
    for (let declaration = queue.pop(); declaration !== undefined; declaration = queue.pop()) {
      const owner = declaration.parent;
      const isMessage = ts.isInterfaceDeclaration(owner) && owner.getSourceFile().fileName === messages;
      if (isMessage && ts.isPropertySignature(declaration))
        names.add(`${owner.name.text}.${declaration.name.getText()}`);
      for (const source of this.#passed.get(declaration) ?? []) {
        if (!seen.has(source)) queue.push(source);
        seen.add(source);
      }
    }
    return names;
  }

  #note(object: ts.Node, name: string): void {
    if (!this.names.has(name)) return;
    const type = this.checker.getTypeAtLocation(object);
    for (const declaration of this.#declarations(type, name)) this.#read.add(declaration);
  }

  #pass(argument: ts.Expression): void {
    if (ts.isObjectLiteralExpression(argument) || ts.isFunctionLike(argument)) return;
    const given = this.checker.getTypeAtLocation(argument);
    // What a parameter wants takes longer to find out.
    if (!this.#mayBeMessage(given)) return;
    const wanted = this.checker.getContextualType(argument);
    if (wanted === undefined) return;
    for (const part of partsOf(wanted)) {
      if ((part.flags & ts.TypeFlags.Object) === 0) continue;
      for (const { name } of part.getProperties()) {
        if (!this.names.has(name)) continue;
        const sources = this.#declarations(given, name);
        for (const declaration of this.#declarations(part, name)) {
          const known = this.#passed.get(declaration) ?? new Set();
          for (const source of sources) if (source !== declaration) known.add(source);
          if (known.size > 0) this.#passed.set(declaration, known);
        }
      }
    }
  }

  /** Whether it has a property with one of the names that this program declares. */
  #mayBeMessage(type: ts.Type): boolean {
    const properties = partsOf(this.checker.getNonNullableType(type)).flatMap((part) =>
      this.checker.getPropertiesOfType(part),
    );
    return properties.some(
      ({ name, declarations = [] }) =>
        this.names.has(name) && declarations.some((one) => !one.getSourceFile().isDeclarationFile),
    );
  }

  #declarations(object: ts.Type, name: string): readonly ts.Declaration[] {
    return partsOf(this.checker.getNonNullableType(object)).flatMap(
      (part) => this.checker.getPropertyOfType(part, name)?.declarations ?? [],
    );
  }
}

function partsOf(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}
