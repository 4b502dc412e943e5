/**
 * Where every engine keeps the files of a container: `<data root>/containers/<64 hex digits>/…`. A link there
 * is a log link; the first group is the id.
 */
export const engineLogFile = /\/containers\/([0-9a-f]{64})\/[^/]+$/;
