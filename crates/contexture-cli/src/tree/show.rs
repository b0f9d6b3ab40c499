//! `tree show`: prints a tree as a drawing or as JSON.

use contexture::store::{NodeHead, TreeInfo};
use contexture::{Engine, Error, Request, Shown as _};
use contexture_terminal::tree::{TreeDrawing, TreePart};
use serde_json::json;

use crate::args::{ShowArgs, StoreOptions};
use crate::output::{self, Usage};

pub(super) fn run(args: &ShowArgs, options: &StoreOptions) -> anyhow::Result<()> {
    if args.depth == Some(0) {
        return Err(Usage("--depth must be 1 or more".to_owned()).into());
    }
    let engine = super::engine(options, false)?;
    let store = engine.store()?;
    let info = store.tree(&args.tree).map_err(Error::from)?.shown();
    let path = path(&engine, &info, args)?;
    let from = args.from.as_ref().map(|name| {
        let found = store.find_node(&args.tree, name);
        found.map_err(Error::from)
    });
    let from = from.transpose()?;
    let skeleton = store.skeleton(&args.tree).map_err(Error::from)?;
    let part = TreePart {
        from: from.as_ref().map(|node| &*node.id),
        depth: args.depth.unwrap_or(usize::MAX),
        all: args.all || options.json,
    };
    let Some(drawing) = TreeDrawing::new(&skeleton, &info, &path, part) else {
        if options.json {
            let empty = json!({"tree": info, "path": [], "nodes": []});
            return output::text(&format!("{empty:#}\n"));
        }
        let tree = output::visible(&args.tree);
        let quoted = output::visible(&contexture_terminal::quoted(&args.tree));
        return output::text(&format!(
            "tree {tree}, a {}, is empty; add the first node with `contexture tree node add \
             {quoted} --author human TEXT`\n",
            info.tree.mode
        ));
    };
    let ids = drawing.node_ids();
    let tokens = engine.node_tokens(&args.tree, info.tree.mode, &ids, args.model.as_deref())?;
    if options.json {
        return output::text(&format!("{:#}\n", drawing.json(&tokens)));
    }
    let model = args.model.as_deref().unwrap_or(&engine.config().model);
    output::text(&drawing.text(&tokens, model, output::width()))
}

/// Returns the path to draw. Empty if the arguments select none.
fn path(engine: &Engine, info: &TreeInfo, args: &ShowArgs) -> anyhow::Result<Vec<NodeHead>> {
    let request = Request {
        tree: Some(args.tree.clone()),
        head: args.head.clone(),
        path: args.path.clone(),
        agent: args.agent.clone(),
        include_annotations: true,
        ..Request::default()
    };
    if let Some(agent) = &args.agent {
        super::agent::known(info, agent)?;
    }
    let found = engine.tree_path(&request);
    if args.head.is_some() || args.path.is_some() {
        return Ok(found?);
    }
    // Without arguments, an ambiguous path is not an error: if there are
    // several leaves, or several paths to one, no path is shown.
    match found {
        Err(error) if !error.is_input() => Err(error.into()),
        found => Ok(found.unwrap_or_default()),
    }
}
