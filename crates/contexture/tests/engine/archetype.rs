//! Archetypes from files, and the errors for invalid ones.

use contexture::Archetypes;
use contexture::extract::{Extractor, Find, TextContext};

#[track_caller]
fn check(text: &str, complaint: &str) {
    let error = Archetypes::parse("mine.yml", text).unwrap_err();
    assert!(error.is_input());
    assert_eq!(error.to_string(), complaint);
}

#[test]
fn the_built_in_ones_are_whole() {
    let archetypes = Archetypes::built_in();
    let told: Vec<String> = archetypes
        .iter()
        .map(|archetype| {
            let strategy = &archetype.strategy;
            strategy.check().unwrap();
            Extractor::new(&archetype.rules).unwrap();
            let budget = &strategy.budget;
            format!(
                "{} {}/{}/{}; {}; {}; {}/{}/{}/{} {}",
                archetype.name,
                strategy.recency_weight,
                strategy.relevance_weight,
                strategy.salience_weight,
                strategy.depth_limit,
                strategy.include_failures,
                budget.recent,
                budget.semantic,
                budget.entities,
                budget.relations,
                budget.patterns
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "coding 0.3/0.5/0.2; 2; true; 20/40/20/20 10",
            "support 0.4/0.4/0.2; 1; false; 30/35/20/15 10",
            "research 0.2/0.6/0.2; 3; true; 10/50/20/20 5",
            "minimal 0.5/0.5/0; 1; false; 50/50/0/0 0",
            "recall 0.3/1/0; 1; true; 0/90/5/5 5",
        ]
    );
    assert!(
        archetypes
            .get("recall")
            .unwrap()
            .strategy
            .recency_only_when_asked
    );
    assert!(
        Archetypes::text("coding")
            .unwrap()
            .contains("archetype: coding")
    );
}

#[test]
fn a_built_in_one_finds_what_it_is_for() {
    let archetypes = Archetypes::built_in();
    let told = |name: &str, text: &str| {
        let extractor = Extractor::new(&archetypes.get(name).unwrap().rules).unwrap();
        let known = TextContext {
            speaker: Some("Melanie"),
            names: &[],
        };
        let found = extractor.extract(text, &known);
        let name = |i: usize| &found.entities[i].name;
        let links = found.relations.iter();
        let links = links.map(|l| format!("{} {} {}", name(l.from), l.kind, name(l.to)));
        links.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        told("coding", "TypeError in src/app.ts: `load` calls `parse`"),
        "load calls parse; TypeError raised_in src/app.ts"
    );
    assert_eq!(
        told(
            "recall",
            "I moved to Lisbon, and my brother Tom works at Acme."
        ),
        "Melanie lives_in Lisbon; Tom works_at Acme"
    );
    assert_eq!(told("minimal", "I moved to Lisbon."), "");
}

#[test]
fn a_users_own_is_read_and_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let own = "archetype: recall\nentity_types: [order]\nextract:\n  entities:\n  \
        - {type: order, pattern: 'order (\\d+)'}\n  keywords: 3\n\
        strategy: {depth_limit: 4, budget: {semantic: 60.5, patterns: 20}}\n";
    std::fs::write(dir.path().join("own.yml"), own).unwrap();
    std::fs::write(dir.path().join("twice.yml"), own).unwrap();
    let archetypes = Archetypes::load(dir.path(), &["own.yml".to_owned()]).unwrap();
    assert_eq!(archetypes.iter().count(), 5);
    let own = archetypes.get("recall").unwrap();
    assert_eq!(
        (own.strategy.depth_limit, own.strategy.budget.semantic),
        (4, 60.5)
    );
    assert_eq!(
        (own.strategy.budget.recent, own.strategy.relevance_weight),
        (0.0, 0.5)
    );
    assert_eq!(
        (own.rules.keywords, own.rules.entities[0].find),
        (3, None::<Find>)
    );

    let both = ["own.yml".to_owned(), "twice.yml".to_owned()];
    let error = Archetypes::load(dir.path(), &both).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the archetype `recall` is defined in both own.yml and twice.yml"
    );
    let error = Archetypes::load(dir.path(), &["none.yml".to_owned()]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read archetype none.yml: ")
    );
    assert_eq!(
        archetypes.get("codng").unwrap_err().to_string(),
        "unknown archetype `codng`; did you mean `coding`? \
         (one of coding, support, research, minimal, recall)"
    );
}

#[test]
fn errors_name_line_and_field() {
    check(
        "archetype: a\nstrategy:\n  dept_limit: 3\n",
        "mine.yml:3:3: strategy.dept_limit: unknown field `dept_limit`; did you mean \
         `depth_limit`? (one of recency_weight, relevance_weight, salience_weight, \
         recency_only_when_asked, depth_limit, include_failures, compress, boosts, budget)",
    );
    check(
        "archetype: a\nstrategy:\n  budget: {recent: 30, semantic: 60, entities: 40}\n",
        "mine.yml:3:11: strategy.budget: the percentages sum to 130, more than 100 \
         (recent 30, semantic 60, entities 40, relations 0)",
    );
    check(
        "archetype: a\nstrategy:\n  depth_limit: 100\n",
        "mine.yml:3:16: strategy.depth_limit: must be at most 16, not 100",
    );
    check(
        "archetype: a\nstrategy: {recency_weight: -1}\n",
        "mine.yml:2:28: strategy.recency_weight: must be a number of 0 or more, not -1",
    );
    check(
        "archetype: a\nentity_types: [order]\nextract:\n  entities:\n  - type: order\n    pattern: '(a'\n",
        "mine.yml:6:14: extract.entities[0].pattern: is no regular expression: unclosed group",
    );
    check(
        "archetype: a\nentity_types: [order]\nextract:\n  entities:\n  - type: oder\n",
        "mine.yml:5:11: extract.entities[0].type: unknown entity type `oder`; did you mean \
         `order`? (one of order)",
    );
    check(
        "archetype: a\nentity_types: [order]\nextract:\n  entities:\n  - type: order\n",
        "mine.yml:5:5: extract.entities[0].find: is missing, and so is `pattern`",
    );
    check(
        "archetype: a\nentity_types: [order, order]\n",
        "mine.yml:2:23: entity_types[1]: `order` is already in this list",
    );
    check(
        "archetype: a\nentity_types: [a]\nrelation_types: [b]\nextract:\n  relations:\n  - {type: b, from: a}\n",
        "mine.yml:6:5: extract.relations[0].to: is missing",
    );
    check("description: a\n", "mine.yml:1:1: archetype: is missing");
    check(
        "",
        "mine.yml:1:1: an archetype must be one mapping with `archetype`",
    );
}
