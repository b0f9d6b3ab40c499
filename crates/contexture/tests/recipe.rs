//! Recipes are data, and are checked as data.
#![allow(clippy::unwrap_used)]

use contexture::core::{Cut, Fit, Order, Place};
use contexture::{Recipe, SourceKind};

#[track_caller]
fn refused(layers: &str, expected: &str) {
    let text = format!("recipe: mine\nlayers:\n{layers}");
    let error = Recipe::parse("mine.yml", &text).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_built_in_recipes_are_good() {
    for name in Recipe::names() {
        let recipe = Recipe::load(name).unwrap();
        assert_eq!(recipe.name, name);
        assert!(!recipe.description.is_empty());
    }
    let recipe = Recipe::load("working-set").unwrap();
    let files = &recipe.layers[1];
    assert_eq!(files.source, SourceKind::WorkingSet);
    assert_eq!(files.cut, None);
    assert_eq!(files.fit, Fit::FirstFit);
    assert_eq!(files.place, Place::ByRole);
    assert_eq!(files.order, Order::Priority);
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
    let Fit::Window(window) = &recipe.layers[1].fit else {
        panic!("{:?}", recipe.layers[1].fit)
    };
    assert_eq!(window.min_recent, 4);
    assert_eq!(window.shrink_to, 0.5);
    let Fit::Path(path) = &recipe.layers[2].fit else {
        panic!("{:?}", recipe.layers[2].fit)
    };
    assert_eq!((path.min_recent, path.head), (2, 0.1));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    refused(
        "- {layer: files, source: working-set, share: 100, fit: window, head: 10}",
        "mine.yml:3:64: layers[0].head: unknown field `head` (one of layer, source, share, min, \
         max, cut, fit, place, order, mask_secrets, min_recent, shrink_to)",
    );
    refused(
        "- {layer: files, source: working-sets, share: 100}",
        "mine.yml:3:26: layers[0].source: unknown source `working-sets`; \
         did you mean `working-set`? (one of boot, working-set, workspace, persona, environment, runtime, task, role, tools, history, event, loom-agent, loom-tree, loom-instructions, loom-addendum, loom-memory, loom-path, loom-document, loom-position, memory, task-root, task-path, task-results)",
    );
    refused(
        "- {layer: fils, source: working-set, share: 100}",
        "mine.yml:3:11: layers[0].layer: unknown layer `fils`; did you mean `files`? \
         (one of workspace, persona, session, memory, event, files, task, role, environment, runtime, tools, loom, task-path, task-results)",
    );
    refused(
        "- {layer: files, source: working-set, share: 60}\n- {layer: event, source: event, share: 60}",
        "mine.yml:4:3: layers: the shares add up to 120, not 100 (files 60, event 60)",
    );
    refused(
        "- {layer: files, source: working-set}",
        "mine.yml:3:3: layers: the shares add up to 0, not 100 ()",
    );
    refused(
        "- {layer: files, source: working-set, share: 100, min: 9, max: 3}",
        "mine.yml:3:3: layers[0].min: is 9, more than max 3",
    );
    refused(
        "- {layer: files, source: working-set, share: 100}\n- {layer: files, source: boot}",
        "mine.yml:4:3: layers[1].layer: `files` stands in this recipe already",
    );
    refused(
        "- {layer: files, source: working-set, share: 100, colour: red}",
        "mine.yml:3:51: layers[0].colour: unknown field `colour` (one of layer, source, share, \
         min, max, cut, fit, place, order, mask_secrets)",
    );
    refused(
        "",
        "mine.yml:1:1: layers: a recipe needs at least one layer",
    );
}

#[test]
fn an_unknown_recipe_suggests_the_nearest() {
    let error = Recipe::load("workingset").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown recipe `workingset`; did you mean `working-set`? (one of working-set, broker, loom-dialogue, loom-buffer, memory, task-stack)"
    );
}
