//! The index: its scores do not depend on its history.
#![allow(clippy::unwrap_used)]

use contexture_recall::sections::{SectionFile, SectionWriter};
use contexture_recall::{Entry, Index, Slot, Vector, best};
use contexture_words::{analyse, query_keywords};
use proptest::prelude::*;

const WORDS: [&str; 12] = [
    "boat", "train", "lisbon", "custard", "release", "noon", "valve", "lever", "the", "not", "42",
    "sails",
];

#[derive(Debug, Clone)]
struct Text {
    words: Vec<usize>,
    run: Option<u8>,
    at: i64,
}

fn text() -> impl Strategy<Value = Text> {
    let words = prop::collection::vec(0..WORDS.len(), 0..12);
    (words, prop::option::of(0..3_u8), 0..20_i64).prop_map(|(words, run, at)| Text {
        words,
        run,
        at,
    })
}

fn says(text: &Text) -> String {
    let words: Vec<&str> = text.words.iter().map(|&word| WORDS[word]).collect();
    words.join(" ")
}

/// A vector that is computed from the words.
fn vector(text: &Text) -> Vector {
    let mut vector = vec![0.0_f32; 8];
    for &word in &text.words {
        vector[word % 8] += 1.0;
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(1.0);
    vector.iter_mut().for_each(|x| *x /= length);
    Vector::quantise(&vector)
}

fn add(index: &mut Index, key: i64, text: &Text) -> Slot {
    let run = text.run.map(|run| format!("run {run}"));
    index.add(&Entry {
        key,
        words: &analyse(&says(text)),
        vector: Some(&vector(text)),
        run: run.as_deref(),
        position: (text.at, 0),
    })
}

fn terms(query: &str) -> Vec<u32> {
    query_keywords(query).iter().map(|word| word.id).collect()
}

/// Returns the scores by key, to the last bit.
fn scores(index: &Index, query: &str) -> Vec<(i64, u32, u32)> {
    let probe = [0.5_f32, -0.5, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0];
    let scores = index.scores(&terms(query), Some(&probe), &[]);
    let mut found: Vec<(i64, u32, u32)> = (0..index.slots() as Slot)
        .filter_map(|slot| {
            let at = slot as usize;
            let key = index.key(slot)?;
            Some((
                key,
                scores.words[at].to_bits(),
                scores.vectors[at].to_bits(),
            ))
        })
        .collect();
    found.sort_unstable();
    found
}

proptest! {
    /// After any sequence of additions, replacements and removals, the scores
    /// equal those of a new index with the remaining texts.
    #[test]
    fn scores_do_not_depend_on_the_history_of_an_index(
        steps in prop::collection::vec((0..12_i64, prop::option::of(text())), 1..60),
        query in prop::collection::vec(0..WORDS.len(), 1..5),
    ) {
        let query: Vec<&str> = query.iter().map(|&word| WORDS[word]).collect();
        let query = query.join(" ");
        let mut index = Index::new(8);
        let mut texts: std::collections::BTreeMap<i64, (Text, Slot)> = Default::default();
        for (key, text) in &steps {
            if let Some((_, slot)) = texts.remove(key) {
                index.remove(slot);
                index.settle();
            }
            if let Some(text) = text {
                let slot = add(&mut index, *key, text);
                texts.insert(*key, (text.clone(), slot));
            }
        }
        let mut anew = Index::new(8);
        for (key, (text, _)) in texts.iter().rev() {
            add(&mut anew, *key, text);
        }
        prop_assert_eq!(index.len(), texts.len());
        prop_assert_eq!(scores(&index, &query), scores(&anew, &query));
    }

    /// Scores are computed many at once if no text is mute, and else one by one.
    /// A mute text without words and neighbours changes none.
    #[test]
    fn scores_are_the_same_computed_at_once_and_one_by_one(
        texts in prop::collection::vec(text(), 1..150),
        query in prop::collection::vec(0..WORDS.len(), 1..5),
    ) {
        let query: Vec<&str> = query.iter().map(|&word| WORDS[word]).collect();
        let query = terms(&query.join(" "));
        let mut index = Index::new(8);
        for (key, text) in (0..).zip(&texts) {
            add(&mut index, key, text);
        }
        let silent = Text { words: Vec::new(), run: None, at: 0 };
        let silent = add(&mut index, 1_000, &silent);
        let at_once = index.scores(&query, None, &[]);
        let one_by_one = index.scores(&query, None, &[silent]);
        let bits = |scores: &[f32]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&at_once.words), bits(&one_by_one.words));
        prop_assert_eq!(at_once.vector_weight, one_by_one.vector_weight);
    }

    /// The best texts equal the first ones of a full sort.
    #[test]
    fn the_best_are_the_best(
        texts in prop::collection::vec(text(), 0..40),
        most in 0..10_usize,
        query in prop::collection::vec(0..WORDS.len(), 1..5),
    ) {
        let query: Vec<&str> = query.iter().map(|&word| WORDS[word]).collect();
        let mut index = Index::new(8);
        for (key, text) in (0..).zip(&texts) {
            add(&mut index, key, text);
        }
        let scores = index.scores(&terms(&query.join(" ")), None, &[]);
        let bonus = |slot: Slot| if slot.is_multiple_of(3) { 0.1 } else { 0.0 };
        let admit = |slot: Slot| slot % 5 != 4;
        let few = best(&index, &scores, most, 0.1, bonus, admit);
        let all = best(&index, &scores, 1_000, 0.1, bonus, admit);
        prop_assert!(all.iter().all(|hit| hit.relevance() > 0.0 && admit(hit.slot)));
        prop_assert!(all.windows(2).all(|two| two[0].relevance() >= two[1].relevance()));
        prop_assert_eq!(&few[..], &all[..most.min(all.len())]);
    }
}

#[test]
fn words_spread_to_neighbours_by_distance() {
    let mut index = Index::new(0);
    let mut add = |key, text: &str, run| {
        index.add(&Entry {
            key,
            words: &analyse(text),
            vector: None,
            run,
            position: (key, 0),
        })
    };
    let filler = "custard noon valve lever release";
    let own = add(0, "lisbon", Some("a"));
    let next = add(1, filler, Some("a"));
    let second = add(2, filler, Some("a"));
    let elsewhere = add(3, filler, Some("b"));
    let scores = index.scores(&terms("lisbon"), None, &[]).words;
    let score = |slot: Slot| scores[slot as usize];
    assert!(score(own) > score(next) && score(next) > score(second));
    assert!(score(second) > 0.0);
    assert_eq!(score(elsewhere), 0.0);
    // The words of a mute text do not count for its neighbours.
    let mute = index.scores(&terms("lisbon"), None, &[own]).words;
    assert_eq!(mute[own as usize], score(own));
    assert_eq!((mute[next as usize], mute[second as usize]), (0.0, 0.0));
}

#[test]
fn terms_that_occur_nowhere_are_ignored() {
    let mut index = Index::new(0);
    add(
        &mut index,
        0,
        &Text {
            words: vec![0],
            run: None,
            at: 0,
        },
    );
    let known = index.scores(&terms("boat"), None, &[]).words;
    let more = index.scores(&terms("boat xylophone"), None, &[]).words;
    assert_eq!(known, more);
}

#[test]
fn without_neighbours_the_score_is_normalised_bm25() {
    let mut index = Index::new(0);
    for (key, text) in [
        (0, "boat boat train"),
        (1, "train"),
        (2, "lisbon noon valve"),
    ] {
        index.add(&Entry {
            key,
            words: &analyse(text),
            vector: None,
            run: None,
            position: (0, 0),
        });
    }
    // ln(1 + (3 - 1 + 0.5) / 1.5) and ln(1 + (3 - 2 + 0.5) / 2.5)
    let (boat, train) = (0.980_829_3_f32, 0.470_003_6_f32);
    let mean = 7.0 / 3.0;
    let part = |count: f32, length: f32| count / (count + 1.2 * (0.25 + 0.75 * length / mean));
    let expected = (boat * part(2.0, 3.0) + train * part(1.0, 3.0)) / (boat + train);
    let scores = index.scores(&terms("boat train"), None, &[]).words;
    assert!(
        (scores[0] - expected).abs() < 1e-4,
        "{} {expected}",
        scores[0]
    );
}

/// Adds a text of a run with one word and a vector.
fn turn(index: &mut Index, key: i64, word: &str, vector: [f32; 4]) -> Slot {
    index.add(&Entry {
        key,
        words: &analyse(word),
        vector: Some(&Vector::quantise(&vector)),
        run: Some("s"),
        position: (key, 0),
    })
}

#[test]
fn vectors_weigh_more_when_words_find_little() {
    let mut index = Index::new(4);
    for (key, word) in (1..).zip(WORDS) {
        turn(&mut index, key, word, [1.0, 0.0, 0.0, 0.0]);
    }
    let weight = |query: &str| index.scores(&terms(query), None, &[]).vector_weight;
    let found = weight("custard");
    assert_eq!(found, 0.5);
    assert!(weight("custard zeppelin") > found);
    assert_eq!(weight("zeppelin"), 1.5);
}

#[test]
fn a_long_text_that_has_the_words_has_found_them() {
    let mut index = Index::new(4);
    let long = format!("{} custard train", "boat noon valve ".repeat(60));
    let add = |index: &mut Index, key: i64, text: &str| {
        index.add(&Entry {
            key,
            words: &analyse(text),
            vector: None,
            run: None,
            position: (key, 0),
        })
    };
    let slot = add(&mut index, 1, &long);
    for key in 2..20 {
        add(&mut index, key, "lever boat");
    }
    let weight = |mute: &[Slot]| {
        index
            .scores(&terms("custard train"), None, mute)
            .vector_weight
    };
    assert_eq!(weight(&[]), 0.5);
    // A match in a mute text does not count.
    assert_eq!(weight(&[slot]), 1.5);
}

#[test]
fn a_text_is_ranked_with_the_one_before_it() {
    let mut index = Index::new(4);
    let (about, other) = ([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]);
    let first = turn(&mut index, 1, "boat", about);
    let answer = turn(&mut index, 2, "noon", other);
    let last = turn(&mut index, 3, "lever", other);
    let vectors = |index: &Index, mute: &[Slot]| {
        let scores = index.scores(&terms("zeppelin"), Some(&about), mute);
        [first, answer, last].map(|slot| scores.vectors[slot as usize])
    };
    let [a, b, c] = vectors(&index, &[]);
    assert!(
        a > 0.9 && (0.3..0.4).contains(&b) && c == 0.0,
        "{a} {b} {c}"
    );
    // A mute text adds nothing to others.
    assert_eq!(vectors(&index, &[first])[1], 0.0);
    // A vector that is set later counts like one that was added.
    index.set_vector(first, Some(&Vector::quantise(&other)));
    assert_eq!(vectors(&index, &[]), [0.0; 3]);
    index.set_vector(first, Some(&Vector::quantise(&about)));
    assert_eq!(vectors(&index, &[]), [a, b, c]);
    // The same holds for a removed text.
    index.remove(answer);
    index.settle();
    let scores = index.scores(&terms("zeppelin"), Some(&about), &[]);
    assert!((scores.vectors[last as usize] - b).abs() < 1e-3);
}

/// Writes an index to a temporary file.
fn write(index: &mut Index) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    index.prepare_to_write();
    let mut to = SectionWriter::new(file.reopen().unwrap(), KIND).unwrap();
    index.write(&mut to).unwrap();
    to.finish().unwrap();
    file
}

const KIND: [u8; 8] = *b"an index";

fn read(file: &tempfile::NamedTempFile) -> std::io::Result<Index> {
    Index::read(&SectionFile::open(file.reopen()?, KIND)?)
}

proptest! {
    /// An index that was written and read has the same scores, and accepts
    /// further changes.
    #[test]
    fn a_file_does_not_show(
        before in prop::collection::vec((0..12_i64, prop::option::of(text())), 0..30),
        after in prop::collection::vec((0..12_i64, prop::option::of(text())), 0..30),
        query in prop::collection::vec(0..WORDS.len(), 1..5),
    ) {
        let query: Vec<&str> = query.iter().map(|&word| WORDS[word]).collect();
        let query = query.join(" ");
        let mut index = Index::new(8);
        let mut texts: std::collections::BTreeMap<i64, (Text, Slot)> = Default::default();
        for (i, (key, text)) in before.iter().chain(&after).enumerate() {
            if i == before.len() {
                let file = write(&mut index);
                let same = read(&file).unwrap();
                prop_assert_eq!(scores(&index, &query), scores(&same, &query));
                index = same;
            }
            if let Some((_, slot)) = texts.remove(key) {
                index.remove(slot);
                index.settle();
            }
            if let Some(text) = text {
                let slot = add(&mut index, *key, text);
                texts.insert(*key, (text.clone(), slot));
            }
        }
        let mut anew = Index::new(8);
        for (key, (text, _)) in &texts {
            add(&mut anew, *key, text);
        }
        prop_assert_eq!(index.len(), texts.len());
        prop_assert_eq!(scores(&index, &query), scores(&anew, &query));
    }

    /// With estimated products, every text is found whose exact score is above
    /// the last checked estimate by more than the largest error. It has its
    /// exact score and rank.
    #[test]
    fn estimates_find_the_best(
        seed in 0..u64::MAX,
        count in 30..300_usize,
        most in 1..6_usize,
    ) {
        let mut random = Random(seed);
        let texts: Vec<Vector> = (0..count).map(|_| Vector::quantise(&random.vector(64))).collect();
        let query = random.vector(64);
        let build = |index: Index| {
            let mut index = index;
            for (key, vector) in (0..).zip(&texts) {
                let words = analyse(if key % 7 == 0 { "boat" } else { "train" });
                index.add(&Entry { key, words: &words, vector: Some(vector), run: None, position: (key, 0) });
            }
            index
        };
        let exact = build(Index::new(64));
        let estimating = build(Index::new(64).estimating_from(0, 0));
        let of = |index: &Index| index.scores(&terms("boat"), Some(&query), &[]);
        let (exact_scores, estimates) = (of(&exact), of(&estimating));
        prop_assert!(estimates.are_estimates() && !exact_scores.are_estimates());
        let total = |scores: &contexture_recall::Scores, slot: usize| {
            scores.words[slot].powf(1.25) + scores.vector_weight * scores.vectors[slot].max(0.0)
        };
        let error = (0..count).map(|slot| (total(&exact_scores, slot) - total(&estimates, slot)).abs());
        let error = error.fold(0.0, f32::max);
        let mut all: Vec<f32> = (0..count).map(|slot| total(&estimates, slot)).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let bar = all.get(6 * most - 1).copied().unwrap_or(0.0);
        let find = |index: &Index, scores| best(index, scores, most, 0.0, |_| 0.0, |_| true);
        let (wanted, found) = (find(&exact, &exact_scores), find(&estimating, &estimates));
        for (wanted, found) in wanted.iter().zip(&found) {
            if total(&exact_scores, wanted.slot as usize) <= bar + error + 1e-4 {
                break;
            }
            prop_assert_eq!(wanted, found);
        }
    }

    /// The texts of a run with consecutive slots are estimated at once, others
    /// one by one. The results are equal, to the last bit.
    #[test]
    fn the_order_of_slots_does_not_show(
        seed in 0..u64::MAX,
        count in 10..200_i64,
        most in 1..30_usize,
        muted in prop::option::of(0..200_i64),
    ) {
        let mut random = Random(seed);
        let texts: Vec<Vector> = (0..count).map(|_| Vector::quantise(&random.vector(64))).collect();
        let query = random.vector(64);
        let mut mixed: Vec<(u32, i64)> = (0..count).map(|key| (random.next().to_bits(), key)).collect();
        mixed.sort_unstable();
        let found = |order: &mut dyn Iterator<Item = i64>| {
            let mut index = Index::new(64).estimating_from(0, 0);
            let mut mute = Vec::new();
            for key in order {
                let run = (key % 31 != 7).then(|| format!("run {}", key / 13));
                let slot = index.add(&Entry {
                    key,
                    words: &analyse(WORDS[(key as usize * 5) % 12]),
                    vector: Some(&texts[key as usize]),
                    run: run.as_deref(),
                    position: (key, 0),
                });
                mute.extend((Some(key) == muted).then_some(slot));
            }
            let scores = index.scores(&terms("boat noon"), Some(&query), &mute);
            let bonus = |slot| match index.key(slot) {
                Some(key) if key % 17 == 0 => 0.1,
                _ => 0.0,
            };
            let admit = |slot| index.key(slot).is_some_and(|key| key % 5 != 0);
            let hits = best(&index, &scores, most, 0.1, bonus, admit);
            hits.iter().map(|hit| (hit.key, hit.relevance().to_bits())).collect::<Vec<_>>()
        };
        let in_order = found(&mut (0..count));
        prop_assert_eq!(in_order, found(&mut mixed.into_iter().map(|(_, key)| key)));
    }
}

/// Pseudorandom numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32) / (1_u64 << 24) as f32 - 0.5
    }

    /// Returns a vector of length 1.
    fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        let values: Vec<f32> = (0..dimensions)
            .map(|_| self.next() + self.next() + self.next())
            .collect();
        let length = values.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
        values.iter().map(|x| x / length).collect()
    }
}

#[test]
fn estimates_are_near_the_cosine() {
    let mut random = Random(17);
    let mut index = Index::new(256).estimating_from(0, 0);
    let mut exact = Index::new(256);
    for key in 0..2_000 {
        let vector = Vector::quantise(&random.vector(256));
        for index in [&mut index, &mut exact] {
            index.add(&Entry {
                key,
                words: &analyse(""),
                vector: Some(&vector),
                run: None,
                position: (key, 0),
            });
        }
    }
    let query = random.vector(256);
    let estimates = index.scores(&[], Some(&query), &[]).vectors;
    let cosines = exact.scores(&[], Some(&query), &[]).vectors;
    let errors: Vec<f32> = estimates
        .iter()
        .zip(cosines.iter())
        .map(|(a, b)| (a - b).abs())
        .collect();
    let within = |most: f32| errors.iter().filter(|error| **error <= most).count();
    assert!(within(0.05) > 1_300, "{}", within(0.05));
    assert!(within(0.15) > 1_980, "{}", within(0.15));
}

#[test]
fn a_damaged_file_is_rejected() {
    let mut index = Index::new(8);
    for key in 0..20 {
        let text = Text {
            words: vec![key as usize % 12, 3],
            run: Some(0),
            at: key,
        };
        add(&mut index, key, &text);
    }
    let file = write(&mut index);
    let bytes = std::fs::read(file.path()).unwrap();
    assert!(read(&file).is_ok());
    for at in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        std::fs::write(file.path(), &flipped).unwrap();
        assert!(read(&file).is_err(), "byte {at}");
        std::fs::write(file.path(), &bytes[..at]).unwrap();
        assert!(read(&file).is_err(), "cut at {at}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    std::fs::write(file.path(), &longer).unwrap();
    assert!(read(&file).is_err());
}

/// A file that cannot be written completely is an error.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let mut index = Index::new(8);
    for key in 0..20 {
        let text = Text {
            words: vec![key as usize % 12],
            run: None,
            at: key,
        };
        add(&mut index, key, &text);
    }
    index.prepare_to_write();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let written = SectionWriter::new(full, KIND).and_then(|mut to| {
        index.write(&mut to)?;
        to.finish()
    });
    let error = written.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
}

/// Estimates skip whole runs, and find the same texts as a check of every text.
#[test]
fn runs_that_are_passed_over_hold_none_of_the_best() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut index = Index::new(64).estimating_from(0, 0);
        for key in 0..600 {
            // Some texts have no run, and runs are not contiguous.
            let run = (key % 11 != 0).then(|| format!("run {}", key * 7 % 40));
            index.add(&Entry {
                key,
                words: &analyse(WORDS[(key as usize * 5) % 12]),
                vector: Some(&Vector::quantise(&random.vector(64))),
                run: run.as_deref(),
                position: (key, 0),
            });
        }
        let query = random.vector(64);
        let mute: Vec<Slot> = (0..600).filter(|slot| slot % 13 == 0).collect();
        let scores = index.scores(&terms("boat noon"), Some(&query), &mute);
        let bonus = |slot: Slot| if slot.is_multiple_of(17) { 0.1 } else { 0.0 };
        let admit = |slot: Slot| !slot.is_multiple_of(5);
        let find = |most: usize| best(&index, &scores, most, 0.1, bonus, admit);
        // All texts are checked, and have exact scores.
        let all = find(600);
        assert!(all.len() > 300, "{}", all.len());
        // Six times as many texts as requested are checked.
        for most in [1, 5, 20, 90] {
            let few = find(most);
            let found: Vec<Slot> = few.iter().map(|hit| hit.slot).collect();
            assert!(
                few.windows(2)
                    .all(|two| two[0].relevance() >= two[1].relevance())
            );
            if most == 90 {
                let wanted: Vec<Slot> = all[..most].iter().map(|hit| hit.slot).collect();
                let missed = wanted.iter().filter(|slot| !found.contains(slot)).count();
                assert!(missed <= 2, "seed {seed}: {missed}");
            }
        }
    }
}

/// A large index keeps its vectors in the file, and reads those it needs.
#[test]
fn vectors_of_a_large_index_stay_in_the_file() {
    let mut random = Random(4);
    let mut index = Index::new(256);
    for key in 0..66_000 {
        let vector = Vector::quantise(&random.vector(256));
        let run = format!("run {}", key / 10);
        index.add(&Entry {
            key,
            words: &analyse(WORDS[key as usize % 12]),
            vector: Some(&vector),
            run: Some(&run),
            position: (key, 0),
        });
    }
    let query = random.vector(256);
    let ask = |index: &Index| {
        let scores = index.scores(&terms("boat noon"), Some(&query), &[5, 77]);
        best(index, &scores, 20, 0.0, |_| 0.0, |slot| slot % 3 != 0)
    };
    let file = write(&mut index);
    let expected = ask(&index);
    let mut from_file = read(&file).unwrap();
    assert_eq!(ask(&from_file), expected);
    // A written index can use the vectors of the file, too, and accepts
    // changes.
    let opened = SectionFile::open(file.reopen().unwrap(), KIND).unwrap();
    let new = Vector::quantise(&query);
    index.set_vector(9, Some(&new));
    index.leave_vectors_to(&opened, 66_000, 0).unwrap();
    from_file.set_vector(9, Some(&new));
    for index in [&mut index, &mut from_file] {
        index.add(&Entry {
            key: 99_999,
            words: &analyse("boat"),
            vector: Some(&new),
            run: Some("run 4"),
            position: (99_999, 0),
        });
        index.remove(3);
        index.settle();
    }
    assert_eq!(ask(&index), ask(&from_file));
    // A deleted file stays open.
    let path = file.into_temp_path();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ask(&index), ask(&from_file));
    assert!(!index.is_damaged());
}

#[test]
fn a_vector_that_was_altered_in_the_file_is_noticed() {
    let mut index = Index::new(256);
    let mut random = Random(4);
    for key in 0..66_000 {
        let vector = Vector::quantise(&random.vector(256));
        index.add(&Entry {
            key,
            words: &analyse(""),
            vector: Some(&vector),
            run: None,
            position: (key, 0),
        });
    }
    let file = write(&mut index);
    let mut bytes = std::fs::read(file.path()).unwrap();
    // The vectors are the largest array by far.
    let middle = bytes.len() * 2 / 3;
    bytes[middle..middle + 2_000_000]
        .iter_mut()
        .for_each(|byte| *byte ^= 1);
    std::fs::write(file.path(), &bytes).unwrap();
    let index = read(&file).unwrap();
    let scores = index.scores(&[], Some(&random.vector(256)), &[]);
    assert!(!index.is_damaged());
    best(&index, &scores, 1_000, 0.0, |_| 0.0, |_| true);
    assert!(index.is_damaged());
}
