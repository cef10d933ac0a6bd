//! Go's `text/template`: lexer, parser, executor, and `fmt`.
