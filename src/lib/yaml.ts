/**
 * The used exports of the package yaml, for a dynamic import. The bundle could not tell the names that a
 * package in CommonJS exports if the package itself were imported so late.
 */
export {
  Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseAllDocuments,
  parseDocument,
  stringify,
  visit,
} from "yaml";
