//! Recipes are data, and are checked as data.

use contexture::core::{Cut, Fit, Place};
use contexture::{Engine, LayerOrder, Recipe, RecipeLayer, Request, Root, recipes};

#[track_caller]
fn refused(layers: &str, expected: &str) {
    let text = format!("recipe: mine\nlayers:\n{layers}");
    let error = Recipe::parse("mine.yml", &text).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_built_in_recipes_are_good() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::open(directory.path()).unwrap();
    let engine = Engine::for_root(&root).unwrap();
    for name in recipes::names() {
        let recipe = engine.find_recipe(&root, name).unwrap();
        engine.check_recipe(&recipe).unwrap();
        assert_eq!(recipe.name, name);
        assert!(!recipe.description.is_empty());
    }
    let recipe = engine.find_recipe(&root, "working-set").unwrap();
    let files = &recipe.layers[1];
    assert_eq!(files.source.as_deref(), Some("working-set"));
    assert_eq!(files.cut, None);
    assert_eq!(files.fit, Fit::FirstFit);
    assert_eq!(files.place, Place::ByRole);
    assert_eq!(files.order, LayerOrder::Auto);
}

#[test]
fn every_field_is_read() {
    let recipe = Recipe::parse(
        "mine.yml",
        "recipe: mine\ndescription: for tests\nlayers:\n\
         - {layer: files, source: working-set, share: 60, min: 100, max: 9000, cut: middle,\n    \
           fit: first-fit, place: system, order: stable, mask_secrets: false}\n\
         - {layer: session, source: event, share: 40, fit: window, place: history,\n    \
           min_recent: 4, shrink_to: 50}\n\
         - {layer: task, source: task, fit: path, min_recent: 2, head: 10}\n",
    )
    .unwrap();
    assert_eq!(recipe.description, "for tests");
    let files = &recipe.layers[0];
    assert_eq!((files.share.min, files.share.max), (100, Some(9000)));
    assert_eq!(files.cut, Some(Cut::Middle));
    assert!(!files.mask_secrets);
    let Fit::Path(window) = &recipe.layers[1].fit else {
        panic!("{:?}", recipe.layers[1].fit)
    };
    assert_eq!(window.min_recent, 4);
    assert_eq!(window.anchor.as_ref().unwrap().shrink_to, 0.5);
    let Fit::Path(path) = &recipe.layers[2].fit else {
        panic!("{:?}", recipe.layers[2].fit)
    };
    assert_eq!((path.min_recent, path.head), (2, 0.1));
}

#[test]
fn errors_name_the_line() {
    refused(
        "- {layer: files, source: working-set, share: 100, fit: window, head: 10}",
        "mine.yml:3:70: layers[0].head: is only for `fit: path`; the fit of this layer is `window`",
    );
    refused(
        "- {layer: files, source: working-set, min_recent: 10}",
        "mine.yml:3:51: layers[0].min_recent: is only for `fit: window` and `fit: path`; the fit \
         of this layer is `first-fit`",
    );
    refused(
        "- {layer: files, source: working-set, share: 60}\n- {layer: event, source: event, share: 60}",
        "mine.yml:4:3: layers: the shares add up to 120, more than 100 (files 60, event 60)",
    );
    refused(
        "- {layer: files, source: working-set, share: 100, min: 9, max: 3}",
        "mine.yml:3:3: layers[0].min: is 9, more than max 3",
    );
    refused(
        "- {layer: files, source: working-set, share: 100}\n- {layer: files, source: boot}",
        "mine.yml:4:3: layers[1].layer: the layer name `files` is already in use; give each \
         layer its own name",
    );
    refused(
        "- layer: group\n  layers:\n  - {layer: a, source: event}\n- {layer: a, source: event}",
        "mine.yml:6:3: layers[1].layer: the layer name `a` is already in use; give each layer \
         its own name",
    );
    refused(
        "- {layer: a, source: event, layers: [{layer: b, source: event}]}",
        "mine.yml:3:22: layers[0].source: a layer needs either `source` or `layers`, not both",
    );
    refused(
        "- {layer: a, source: event, layers: []}",
        "mine.yml:3:22: layers[0].source: a layer needs either `source` or `layers`, not both",
    );
    refused(
        "- {layer: a, layers: []}",
        "mine.yml:3:3: layers[0].layers: a group needs at least one layer",
    );
    for (field, column) in [
        ("with: {part: path}", 20),
        ("fit: window", 19),
        ("head: 10", 20),
    ] {
        let key = field.split(':').next().unwrap();
        refused(
            &format!("- {{layer: a, {field}, layers: [{{layer: b, source: event}}]}}"),
            &format!(
                "mine.yml:3:{column}: layers[0].{key}: a layer with `layers` has no items of its \
                 own; set `{key}` on its nested layers"
            ),
        );
    }
    refused(
        "- {layer: files, source: working-set, share: 100, colour: red}",
        "mine.yml:3:51: layers[0].colour: unknown field `colour` (one of layer, source, with, \
         layers, share, min, max, cut, fit, place, order, mask_secrets, pinned, compact, volatile)",
    );
    refused(
        "",
        "mine.yml:1:1: layers: a recipe needs at least one layer",
    );
}

#[test]
fn nested_layers_inherit_the_settings_of_their_group() {
    let text = "recipe: mine\nlayers:\n\
         - layer: group\n  cut: never\n  place: history\n  order: priority\n  \
           mask_secrets: false\n  pinned: true\n  compact: false\n  volatile: true\n  layers:\n  \
           - {layer: same, source: event}\n  \
           - {layer: own, source: event, cut: item, place: current, order: stable,\n     \
              mask_secrets: true, pinned: false, compact: true, volatile: false}\n  \
           - {layer: inner, place: system, layers: [{layer: deep, source: event}]}\n";
    let recipe = Recipe::parse("mine.yml", text).unwrap();
    let [same, own, inner] = &recipe.layers[0].layers[..] else {
        panic!("{recipe:?}")
    };
    let settings = |layer: &RecipeLayer| {
        let flags = [
            layer.mask_secrets,
            layer.pinned,
            layer.compact,
            layer.volatile,
        ];
        (layer.cut, layer.place, layer.order, flags)
    };
    let of_group = [false, true, false, true];
    let (never, priority) = (Some(Cut::Never), LayerOrder::Priority);
    assert_eq!(settings(same), (never, Place::History, priority, of_group));
    let usual = [true, false, true, false];
    assert_eq!(
        settings(own),
        (None, Place::Current, LayerOrder::Stable, usual)
    );
    let deep = &inner.layers[0];
    assert_eq!(settings(deep), (never, Place::System, priority, of_group));
    // The written form has the same meaning.
    let written = recipe.to_json().to_string();
    assert_eq!(
        Recipe::parse("mine.yml", &written).unwrap().layers,
        recipe.layers
    );
}

#[test]
fn a_group_decides_about_the_items_of_its_layers() {
    let directory = tempfile::tempdir().unwrap();
    let long = "All of it is needed.\n".repeat(400);
    std::fs::write(directory.path().join("a.md"), long).unwrap();
    let manifest = "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n- {path: a.md, priority: 0.5}\n";
    std::fs::write(directory.path().join("a.yml"), manifest).unwrap();
    let root = Root::open(directory.path()).unwrap();
    let engine = Engine::for_root(&root).unwrap();
    let assemble = |settings: &str| {
        let text = format!(
            "recipe: mine\nlayers:\n- layer: n\n  {settings}\n  layers:\n  \
             - {{layer: a, source: working-set, with: {{manifest: a.yml}}, share: 50}}\n"
        );
        let request = Request {
            recipe: Some(Recipe::parse("mine.yml", &text).unwrap().into()),
            max_tokens: Some(1000),
            ..Request::default()
        };
        engine.assemble(&root, &request)
    };
    let cut = assemble("share: 100").unwrap();
    assert!(cut.report.included[0].truncated);
    let error = assemble("pinned: true").unwrap_err();
    assert!(error.to_string().contains("a.md"), "{error}");
    let placed = assemble("place: history").unwrap();
    assert_eq!(
        (placed.layout.history.len(), placed.layout.current.len()),
        (1, 0)
    );
    let whole_or_nothing = assemble("cut: never").unwrap();
    assert!(whole_or_nothing.report.included.is_empty());
}

#[test]
fn a_source_of_grammar_1_shows_its_new_form() {
    for (former, now) in [
        ("workspace", "{source: files}"),
        ("loom-path", "{source: loom, with: {part: path}}"),
        ("task-root", "{source: tasks, with: {part: root}}"),
    ] {
        refused(
            &format!("- {{layer: a, source: {former}}}"),
            &format!(
                "mine.yml:3:22: layers[0].source: `{former}` was removed in recipe grammar 2; \
                 write {now}"
            ),
        );
    }
}

#[test]
fn an_unknown_recipe_suggests_the_nearest() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::open(directory.path()).unwrap();
    let engine = Engine::for_root(&root).unwrap();
    let error = engine.find_recipe(&root, "workingset").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown recipe `workingset`; did you mean `working-set`? (one of broker, fit, inline, loom-buffer, \
         loom-dialogue, memory, task-stack, working-set)"
    );
}

/// A value that every request would refuse is refused with the recipe, with its
/// position.
#[test]
fn sources_check_the_values_of_their_parameters() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::open(directory.path()).unwrap();
    let engine = Engine::for_root(&root).unwrap();
    for (layer, expected) in [
        (
            "{layer: a, source: memory, with: {filters: {bogus: 1}}}",
            "mine.yml:3:37: layers[0].with.filters: unknown field `bogus`",
        ),
        (
            "{layer: a, source: memory, with: {strategy: bogus}}",
            "mine.yml:3:37: layers[0].with.strategy: unknown archetype `bogus`",
        ),
        (
            "{layer: a, source: files, with: {paths: [a.md, ../x]}}",
            "mine.yml:3:36: layers[0].with.paths: the path `../x` contains `..`, which can leave \
             the root; use a path below the root",
        ),
        (
            "{layer: a, source: working-set, with: {manifest: /x.yml}}",
            "mine.yml:3:42: layers[0].with.manifest: the path `/x.yml` is absolute; use a path \
             relative to the root",
        ),
    ] {
        let text = format!("recipe: mine\nlayers:\n- {layer}\n");
        let recipe = Recipe::parse("mine.yml", &text).unwrap();
        let checked = engine.check_recipe(&recipe).unwrap_err().to_string();
        assert!(checked.starts_with(expected), "{checked}");
        let request = Request {
            recipe: Some(recipe.into()),
            ..Request::default()
        };
        let refused = engine.assemble(&root, &request).unwrap_err();
        assert_eq!(refused.to_string(), checked);
    }
    // A variable has no value yet, and a number can be the label of a session.
    let good = "recipe: mine\nlayers:\n\
         - {layer: a, source: memory, with: {strategy: $strategy, filters: {exclude: [x]}}}\n\
         - {layer: b, source: history, with: {session: 5}}\n\
         - {layer: c, source: files, with: {paths: ['docs/*.md']}}\n";
    let recipe = Recipe::parse("mine.yml", good).unwrap();
    engine.check_recipe(&recipe).unwrap();
}
