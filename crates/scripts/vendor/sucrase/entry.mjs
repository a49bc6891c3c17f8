// What is bundled of Sucrase: from TypeScript to JavaScript, every line at its place. As its own `transform` does it with
// { transforms: ["typescript"], disableESTransforms: true }, without the checks of options and without source maps.
import { HelperManager } from "sucrase/dist/esm/HelperManager.js";
import identifyShadowedGlobals from "sucrase/dist/esm/identifyShadowedGlobals.js";
import NameManager from "sucrase/dist/esm/NameManager.js";
import { parse } from "sucrase/dist/esm/parser/index.js";
import { ContextualKeyword } from "sucrase/dist/esm/parser/tokenizer/keywords.js";
import { TokenType } from "sucrase/dist/esm/parser/tokenizer/types.js";
import TokenProcessor from "sucrase/dist/esm/TokenProcessor.js";
import RootTransformer from "sucrase/dist/esm/transformers/RootTransformer.js";
import getTSImportedNames from "sucrase/dist/esm/util/getTSImportedNames.js";

export function stripTypes(code) {
  const options = { transforms: ["typescript"], disableESTransforms: true };
  const { tokens, scopes } = parse(code, false, true, false);
  refuseNamespaces(code, tokens);
  const nameManager = new NameManager(code, tokens);
  const helperManager = new HelperManager(nameManager);
  const tokenProcessor = new TokenProcessor(code, tokens, false, true, helperManager);
  identifyShadowedGlobals(tokenProcessor, scopes, getTSImportedNames(tokenProcessor));
  const context = { tokenProcessor, scopes, nameManager, importProcessor: null, helperManager };
  return new RootTransformer(context, options.transforms, false, options).transform().code;
}

// Sucrase leaves a namespace out as if it held types alone. One that holds values is an error here, never code that is missing.
function refuseNamespaces(code, tokens) {
  const values = [TokenType._const, TokenType._let, TokenType._var, TokenType._function, TokenType._class, TokenType._enum];
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    const named = token.contextualKeyword === ContextualKeyword._namespace || token.contextualKeyword === ContextualKeyword._module;
    if (!named || !token.isType || (before?.isType && before.type !== TokenType._export)) return;
    const open = tokens.findIndex((one, index) => index > at && !(one.type === TokenType.name || one.type === TokenType.dot));
    if (tokens[open]?.type !== TokenType.braceL) return;
    for (let depth = 0, index = open; index < tokens.length; index++) {
      if (values.includes(tokens[index].type)) throw misplaced(code, token.start);
      depth += Number(tokens[index].type === TokenType.braceL) - Number(tokens[index].type === TokenType.braceR);
      if (depth === 0) return;
    }
  });
}

function misplaced(code, position) {
  const lines = code.slice(0, position).split("\n");
  const error = new SyntaxError("a namespace that holds values is not supported: export them, or make an object of them");
  error.loc = { line: lines.length, column: lines[lines.length - 1].length + 1 };
  return error;
}
