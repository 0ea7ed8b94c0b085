//! What a line says about the findings it must yield.
//!
//! | annotation | meaning |
//! |---|---|
//! | `// expect: RULE` | exactly one finding of this rule is at this line |
//! | `// expect: RULE+` | at least one is: the same line seen from several places |
//! | `// expect: RULE, RULE` | one of each |
//! | `// confirmed: RULE` | exactly one is, and recovery fails on a crash image that shows it |
//! | `// expect[clwb, O2]: RULE` | only in builds with these tags, see [`BuildScope`] |
//! | `// known-miss: RULE because …` | the rule should speak here and does not yet; fails when it does |
//! | `// missing-store: RULE` | the rule speaks elsewhere, and names the store at this line as the one that recovery misses |
//!
//! A line may hold several annotations, each with its own `//`. A line that holds nothing but annotations
//! speaks of the next line that holds code.

use crate::build::BuildScope;

/// What is said about one line, one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The line spoken of, from 1.
    pub line: u32,
    pub rule: String,
    pub scope: BuildScope,
    pub claim: Claim,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    One,
    OneOrMore,
    /// One that recovery confirms.
    Confirmed,
    /// Nothing, though there should be something.
    KnownMiss {
        reason: String,
    },
    /// A finding at another line says that the store at this one came too late.
    MissingStore,
}

/// A comment that means to be an annotation and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub line: u32,
    pub problem: String,
}

/// Reads all annotations of a source text, in the order in which they are written.
pub fn parse(text: &str) -> Result<Vec<Annotation>, Malformed> {
    let mut annotations = Vec::new();
    // Those of lines without code, which wait for a line that has some.
    let mut waiting: Vec<Annotation> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let mut pieces = content.split("//");
        let code = pieces.next().unwrap_or_default();
        let mut found = Vec::new();
        for comment in pieces {
            let parsed = parse_comment(line, comment.trim());
            found.extend(parsed.map_err(|problem| Malformed { line, problem })?);
        }
        if !code.trim().is_empty() {
            waiting.iter_mut().for_each(|waiting| waiting.line = line);
            annotations.append(&mut waiting);
            annotations.append(&mut found);
        } else {
            waiting.append(&mut found);
        }
    }
    match waiting.first() {
        None => Ok(annotations),
        Some(orphan) => Err(Malformed {
            line: orphan.line,
            problem: "no line of code follows this annotation".to_owned(),
        }),
    }
}

/// The annotations in one comment: none, if it is an ordinary comment.
fn parse_comment(line: u32, comment: &str) -> Result<Vec<Annotation>, String> {
    let word_end = comment
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .unwrap_or(comment.len());
    let (word, rest) = comment.split_at(word_end);
    // Prose may begin with the same word; only what goes on like an annotation is one.
    let is_annotation = matches!(
        word,
        "expect" | "confirmed" | "known-miss" | "missing-store"
    );
    if !is_annotation || !rest.starts_with(['[', ':']) {
        return Ok(Vec::new());
    }
    let (scope, body) = parse_scope(rest)?;
    let body = body
        .strip_prefix(':')
        .ok_or_else(|| format!("`{word}` is not followed by a colon"))?
        .trim();
    let annotation = |rule: &str, claim: Claim| {
        Ok(Annotation {
            line,
            rule: rule_name(rule)?.to_owned(),
            scope: scope.clone(),
            claim,
        })
    };
    if word == "known-miss" {
        let (rule, reason) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        if reason.trim().is_empty() {
            return Err("a known miss needs a reason".to_owned());
        }
        let reason = reason.trim().to_owned();
        return Ok(vec![annotation(rule, Claim::KnownMiss { reason })?]);
    }
    if word == "missing-store" {
        return Ok(vec![annotation(body, Claim::MissingStore)?]);
    }
    if word == "confirmed" {
        return Ok(vec![annotation(body, Claim::Confirmed)?]);
    }
    body.split(',')
        .map(|item| match item.trim().strip_suffix('+') {
            Some(rule) => annotation(rule, Claim::OneOrMore),
            None => annotation(item.trim(), Claim::One),
        })
        .collect()
}

/// Splits `[tag, tag]rest`.
fn parse_scope(text: &str) -> Result<(BuildScope, &str), String> {
    let Some(inside) = text.strip_prefix('[') else {
        return Ok((BuildScope::default(), text));
    };
    let (tags, rest) = inside
        .split_once(']')
        .ok_or("the scope has no closing bracket")?;
    let tags: Vec<&str> = tags.split(',').map(str::trim).collect();
    if tags.contains(&"") {
        return Err("the scope holds an empty tag".to_owned());
    }
    Ok((BuildScope::new(tags), rest))
}

fn rule_name(text: &str) -> Result<&str, String> {
    let well_formed = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if well_formed {
        Ok(text)
    } else {
        Err(format!("{text:?} is no name of a rule"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(text: &str) -> Vec<(u32, String)> {
        let annotations = parse(text).expect("the text is well-formed");
        annotations
            .into_iter()
            .map(|annotation| (annotation.line, annotation.rule))
            .collect()
    }

    fn at(line: u32, rule: &str) -> (u32, String) {
        (line, rule.to_owned())
    }

    #[test]
    fn an_annotation_speaks_of_its_line() {
        assert_eq!(
            rules("a;\nb; // expect: missing-flush\n"),
            [at(2, "missing-flush")]
        );
    }

    #[test]
    fn a_line_may_hold_several() {
        assert_eq!(
            rules("b; // expect: a, b // expect[nt]: c\n"),
            [at(1, "a"), at(1, "b"), at(1, "c")]
        );
    }

    #[test]
    fn alone_on_a_line_it_speaks_of_the_next_line_with_code() {
        assert_eq!(
            rules("// expect: a\n\n// why\ncode(); // expect: b\n"),
            [at(4, "a"), at(4, "b")]
        );
    }

    #[test]
    fn prose_and_other_comments_are_no_annotations() {
        assert_eq!(
            rules(
                "a; // expect the worst\nb; // see http://expect.example\nc; // expectation: none\n"
            ),
            []
        );
    }

    #[test]
    fn claims_are_told_apart() {
        let text = "x; // expect: a // expect: b+ // known-miss: c needs types\n";
        let claims: Vec<Claim> = parse(text)
            .unwrap()
            .into_iter()
            .map(|annotation| annotation.claim)
            .collect();
        let reason = "needs types".to_owned();
        assert_eq!(
            claims,
            [Claim::One, Claim::OneOrMore, Claim::KnownMiss { reason }]
        );
    }

    #[test]
    fn what_means_to_be_an_annotation_must_be_one() {
        for text in [
            "x; // expect:\n",
            "x; // expect: a,\n",
            "x; // expect: Missing flush\n",
            "x; // expect[clwb: a\n",
            "x; // expect[]: a\n",
            "x; // expect[nt] a\n",
            "x; // known-miss: a\n",
            "x; // missing-store: a b\n",
            "x; // confirmed: a, b\n",
            "x;\n// expect: a\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!(parse("\n\nx; // expect:\n").unwrap_err().line, 3);
    }

    fn written(annotation: &Annotation, tags: &[String]) -> String {
        let scope = match tags {
            [] => String::new(),
            tags => format!("[{}]", tags.join(", ")),
        };
        let rule = &annotation.rule;
        match &annotation.claim {
            Claim::One => format!("// expect{scope}: {rule}"),
            Claim::OneOrMore => format!("// expect{scope}: {rule}+"),
            Claim::KnownMiss { reason } => format!("// known-miss{scope}: {rule} {reason}"),
            Claim::MissingStore => format!("// missing-store{scope}: {rule}"),
            Claim::Confirmed => format!("// confirmed{scope}: {rule}"),
        }
    }

    prop_compose! {
        fn any_annotation()(
            rule in "[a-z][a-z0-9-]{0,20}",
            tags in prop::collection::vec("[a-zA-Z0-9]{1,8}", 0..3),
            claim in prop_oneof![
                Just(Claim::One),
                Just(Claim::OneOrMore),
                Just(Claim::MissingStore),
                Just(Claim::Confirmed),
                "[a-z]{1,9}( [a-z]{1,9}){0,3}".prop_map(|reason| Claim::KnownMiss { reason }),
            ],
        ) -> (Annotation, Vec<String>) {
            (Annotation { line: 0, rule, scope: BuildScope::new(tags.clone()), claim }, tags)
        }
    }

    proptest! {
        /// Annotations written on the lines of a file are read back, line by line.
        #[test]
        fn what_is_written_is_read(lines in prop::collection::vec(
            prop::collection::vec(any_annotation(), 0..3), 0..8)
        ) {
            let mut text = String::new();
            let mut expected = Vec::new();
            for (line, annotations) in (1..).zip(&lines) {
                text.push_str("code();");
                for (annotation, tags) in annotations {
                    text.push(' ');
                    text.push_str(&written(annotation, tags));
                    expected.push(Annotation { line, ..annotation.clone() });
                }
                text.push('\n');
            }
            prop_assert_eq!(parse(&text).unwrap(), expected);
        }

        /// No text makes the parser fail other than by saying so, and errors name a line of the text.
        #[test]
        fn any_text_is_read_or_refused(text in "(expect|confirmed|known-miss|missing-store|//|\\[|\\]|:|,|[+]|[a-z]|\\PC|\n| ){0,60}") {
            if let Err(malformed) = parse(&text) {
                prop_assert!((malformed.line as usize) <= text.lines().count());
            }
        }
    }
}
