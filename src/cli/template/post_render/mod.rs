//! `--post-renderer`: rendered documents go through a program, as one stream, before they are sorted and printed.
//!
//! As in Helm 4, an annotation marks every document with the file it comes from, and is removed afterwards. Hooks
//! are treated like other objects. The name is that of a plugin of type `postrenderer/v1`. The path of a program,
//! which Helm 4 refuses and Helm 3 accepted, is accepted, too: anything with a slash that is a file.

mod plugin;

use crate::cli::common::error::CliError;
use crate::render::order;
use crate::template::yaml::document::{CommentedNode, Content, Document, Style, read};
use crate::template::yaml::{parse, write_documents};
use plugin::Plugin;
use std::collections::BTreeMap;
use std::path::Path;

/// The annotation that holds a document's file.
const FILE: &str = "postrenderer.helm.sh/postrender-filename";
/// Annotations that Helm's library for documents uses itself, and removes.
const READERS: [&str; 3] =
    ["config.kubernetes.io/index", "internal.config.kubernetes.io/index", "internal.config.kubernetes.io/seqindent"];

/// Helm's flags of post-rendering.
#[derive(Debug, clap::Args)]
pub struct PostRenderArgs {
    /// A plugin of type postrenderer/v1 (in `HELM_PLUGINS`) or the path of a program that changes the manifests.
    #[arg(long, value_name = "NAME|PATH")]
    post_renderer: Vec<String>,
    /// An argument for it; can be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,
}

/// A program that changes manifests.
pub struct PostRenderer {
    plugin: Plugin,
    args: Vec<String>,
}

impl PostRenderArgs {
    /// The post-renderer, if one is wanted. The errors are Helm's for the flag.
    pub fn find(&self) -> Result<Option<PostRenderer>, CliError> {
        let mut names = self.post_renderer.iter().filter(|name| !name.is_empty());
        let Some(name) = names.next() else { return Ok(None) };
        let wrong = |name: &str, why: &str| {
            Err(CliError(format!("invalid argument {name:?} for \"--post-renderer\" flag: {why}")))
        };
        let plugin = if name.contains('/') && Path::new(name).is_file() {
            Ok(Plugin::program(name))
        } else {
            Plugin::find(name)
        };
        match (plugin, names.next()) {
            (Err(e), _) => wrong(name, &e.0),
            (Ok(_), Some(second)) => wrong(second, "cannot specify --post-renderer flag more than once"),
            (Ok(plugin), None) => Ok(Some(PostRenderer { plugin, args: self.post_renderer_args.clone() })),
        }
    }
}

impl PostRenderer {
    /// Rendered files, changed by the program. A document that it adds gets its own name.
    pub fn run(&self, texts: &[(String, String)]) -> Result<Vec<(String, String)>, CliError> {
        let merged = merge(texts).map_err(|e| format!("error merging manifests: {e}"))?;
        let name = &self.plugin.name;
        let output = self.plugin.run(&self.args, &merged).map_err(|e| {
            format!("error while running post render on files: failed to invoke post-renderer plugin {name:?}: {e}")
        })?;
        if output.trim().is_empty() {
            return Err(format!(
                "error while running post render on files: post-renderer {name:?} produced empty output"
            )
            .into());
        }
        split(&output).map_err(|e| format!("error while parsing post rendered output: error parsing YAML: {e}").into())
    }
}

/// All documents as one stream, each marked with its file.
fn merge(texts: &[(String, String)]) -> Result<String, CliError> {
    let mut all = Vec::new();
    for (file, text) in texts {
        if file.rsplit('/').next().is_some_and(|base| base.starts_with('_')) {
            continue;
        }
        let wrong = |e: CliError| format!("parsing {file}: {e}");
        for document in order::split(text) {
            for mut document in documents(document).map_err(wrong)? {
                annotate(&mut document.root, file);
                all.push(document);
            }
        }
    }
    Ok(write_documents(&all))
}

/// The files of a stream, by their marks, without them.
fn split(text: &str) -> Result<Vec<(String, String)>, CliError> {
    let mut files: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    for (i, mut document) in documents(text)?.into_iter().enumerate() {
        let annotations = document.root.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let file = annotations.and_then(|annotations| annotations.get(FILE)).and_then(CommentedNode::text);
        let file = file.filter(|file| !file.is_empty()).map(str::to_owned);
        let file = file.unwrap_or_else(|| format!("generated-by-postrender-{i}.yaml"));
        clear(&mut document.root, &[FILE]);
        files.entry(file).or_default().push(document);
    }
    Ok(files.into_iter().map(|(file, documents)| (file, write_documents(&documents))).collect())
}

/// The documents of a text with something in them. A lone list counts as its items.
fn documents(text: &str) -> Result<Vec<Document>, CliError> {
    let text = text.replace("\r\n", "\n");
    let pieces = pieces(&text)?;
    let mut documents = Vec::new();
    for piece in &pieces {
        let malformed = |e: String| format!("MalformedYAMLError: {e}");
        // Helm's reader is go-yaml's, whose errors are known. A document that only this reader refuses is reported in
        // its own words.
        let document = read(piece).map_err(|e| {
            let known = parse(piece.as_bytes()).err().map(|e| e.to_string());
            malformed(known.map_or_else(
                || e.to_string(),
                |text| text.trim_start_matches("error converting YAML to JSON: ").to_owned(),
            ))
        });
        let Some(mut document) = document? else { continue };
        let root = &mut document.root;
        if let Content::Scalar(text, Style::Plain) = &root.content
            && matches!(text.as_str(), "~" | "null" | "Null" | "NULL")
        {
            continue;
        }
        prepare(root)?;
        let is_list = matches!(root.get("kind").and_then(CommentedNode::text), Some("List" | "ResourceList"));
        match root.get("items").map(|items| &items.content) {
            Some(Content::Sequence(items, _)) if is_list && pieces.len() == 1 => {
                for item in items {
                    let mut root = item.clone();
                    prepare(&mut root)?;
                    documents.push(Document { head: String::new(), root, foot: String::new() });
                }
            }
            _ => documents.push(document),
        }
    }
    Ok(documents)
}

/// A stream's parts, between lines that begin with `---`.
fn pieces(text: &str) -> Result<Vec<String>, CliError> {
    let mut pieces = vec![String::new()];
    for (i, line) in text.split_inclusive('\n').enumerate() {
        match line.strip_prefix("---").filter(|_| i > 0 && line.ends_with('\n')) {
            Some(rest) if !rest.trim().is_empty() && !rest.trim().starts_with('#') => {
                return Err(format!("invalid document separator: {}", line.trim()).into());
            }
            Some(_) => pieces.push(String::new()),
            None => pieces.last_mut().into_iter().for_each(|piece| piece.push_str(line)),
        }
    }
    Ok(pieces)
}

/// The effect of reading on a document: it loses the annotations of the reader.
fn prepare(root: &mut CommentedNode) -> Result<(), CliError> {
    if let Content::Scalar(..) | Content::Sequence(..) | Content::Alias(_) = &root.content {
        let kind = match root.content {
            Content::Sequence(..) => "SequenceNode",
            Content::Alias(_) => "AliasNode",
            _ => "ScalarNode",
        };
        let document = Document { head: String::new(), root: root.clone(), foot: String::new() };
        let text = write_documents(&[document]);
        return Err(format!("wrong node kind: expected MappingNode but got {kind}: node contents:\n{text}").into());
    }
    clear(root, &READERS);
    Ok(())
}

/// A mapping below a key, made if there is none.
fn table<'a>(node: &'a mut CommentedNode, key: &str) -> Option<&'a mut CommentedNode> {
    let Content::Mapping(pairs, _) = &mut node.content else { return None };
    let at = pairs.iter().position(|(k, _)| k.text() == Some(key)).unwrap_or_else(|| {
        pairs.push((CommentedNode::scalar(key, Style::Plain), CommentedNode::new(Content::Mapping(Vec::new(), false))));
        pairs.len() - 1
    });
    let value = &mut pairs[at].1;
    if matches!(&value.content, Content::Scalar(text, Style::Plain) if matches!(text.as_str(), "" | "~" | "null")) {
        value.content = Content::Mapping(Vec::new(), false);
    }
    Some(value)
}

fn annotate(root: &mut CommentedNode, file: &str) {
    let Some(annotations) = table(root, "metadata").and_then(|metadata| table(metadata, "annotations")) else { return };
    let Content::Mapping(pairs, _) = &mut annotations.content else { return };
    pairs.retain(|(key, _)| key.text() != Some(FILE));
    pairs.push((CommentedNode::scalar(FILE, Style::Plain), CommentedNode::scalar(file, Style::Single)));
}

/// Removes annotations, and `annotations` if none is left.
fn clear(root: &mut CommentedNode, names: &[&str]) {
    let Some(metadata) = root.get_mut("metadata") else { return };
    let Some(annotations) = metadata.get_mut("annotations") else { return };
    let Content::Mapping(pairs, _) = &mut annotations.content else { return };
    pairs.retain(|(key, _)| key.text().is_none_or(|key| !names.contains(&key)));
    if pairs.is_empty()
        && let Content::Mapping(pairs, _) = &mut metadata.content
    {
        pairs.retain(|(key, _)| key.text() != Some("annotations"));
        let is_empty = pairs.is_empty();
        if let Content::Mapping(pairs, _) = &mut root.content {
            pairs.retain(|(key, _)| !is_empty || key.text() != Some("metadata"));
        }
    }
}
