//! What a configuration file may contain, and how mistakes in it are reported.

use super::*;

fn parse(text: &str, preset: Option<&str>) -> Result<Config, String> {
    Config::parse(Path::new("/home/u/kv/brownout.toml"), text, preset)
        .map_err(|error| error.to_string())
}

const EXAMPLE: &str = "\
pm = ['/mnt/pmem/**', 'pools/*', '*.pool']
model = 'eadr'
suppressions = ['accepted.toml']
baseline = '/etc/known.json'

[preset.ci]
format = 'sarif'
model = 'adr'
";

#[test]
fn paths_are_relative_to_the_file() {
    let config = parse(EXAMPLE, None).unwrap();
    assert_eq!(config.pm, ["/mnt/pmem/**", "/home/u/kv/pools/*", "*.pool"]);
    assert_eq!(config.suppressions, [Path::new("/home/u/kv/accepted.toml")]);
    assert_eq!(
        config.baseline.as_deref(),
        Some(Path::new("/etc/known.json"))
    );
    assert_eq!(config.model, Some(Profile::EADR));
    assert_eq!(config.format, None);
}

#[test]
fn a_preset_overrides_the_rest() {
    let config = parse(EXAMPLE, Some("ci")).unwrap();
    assert_eq!(config.model, Some(Profile::ADR));
    assert_eq!(config.format, Some(FindingFormat::Sarif));
    assert_eq!(config.pm.len(), 3);
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let flaw = |text: &str| parse(text, None).unwrap_err();
    assert!(flaw("\nmodle = 'adr'\n").contains("line 2: unknown field `modle`"));
    assert!(flaw("\n\n[preset.x]\nfoo = 1\n").contains("line 4: unknown field `foo`"));
    assert!(flaw("model = 'x'\n").contains("line 1: unknown model `x`; expected one of adr,"));
    assert!(flaw("[preset.a]\nmodel = 'x'\n").contains("line 2: unknown model"));
    assert!(flaw("\nformat = 'pdf'\n").contains("line 2: unknown variant `pdf`"));
    assert!(flaw("[preset.a.preset.b]\n").contains("a preset cannot contain presets"));
    assert!(flaw("pm = ").contains("line 1"));
    let oracle = "[[oracle]]\nid = 'x'\nsummary = ''\nstores = {}\n";
    assert!(flaw(oracle).contains("line 1: oracle `x`: needs exactly one of"));
    let whole = format!("{oracle}only-inside = []\n");
    assert_eq!(parse(&whole, None).unwrap().oracles.len(), 1);
    assert!(flaw(&format!("{whole}{whole}")).contains("line 6: duplicate oracle id `x`"));
    let nested = whole.replace("[[oracle", "[[preset.ci.oracle");
    assert!(flaw(&nested).contains("a preset cannot contain oracles"));
}

#[test]
fn the_former_name_of_presets_is_accepted() {
    let config = parse("[profile.ci]\nmodel = 'eadr'\n", Some("ci")).unwrap();
    assert_eq!(config.model, Some(Profile::EADR));
}

#[test]
fn a_missing_preset_is_an_error() {
    let error = parse(EXAMPLE, Some("cj")).unwrap_err();
    assert!(error.ends_with("has no [preset.cj]; it has ci"), "{error}");
    assert!(
        parse("", Some("a"))
            .unwrap_err()
            .ends_with("it has no presets")
    );
    let arguments = ConfigArgs {
        config: None,
        preset: Some("ci".into()),
    };
    let empty = tempfile::tempdir().unwrap();
    let error = Config::find(&arguments, empty.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--preset ci needs a brownout.toml")
    );
}

#[test]
fn the_nearest_file_in_the_parents_applies() {
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    fs::write(root.path().join(FILE_NAME), "out = 'far'").unwrap();
    let find = || Config::find(&ConfigArgs::default(), &inner).unwrap();
    assert_eq!(find().out, Some(root.path().join("far")));
    fs::write(root.path().join("a").join(FILE_NAME), "out = 'near'").unwrap();
    assert_eq!(find().out, Some(root.path().join("a/near")));
}

#[test]
fn rules_have_levels_and_a_preset_overrides_single_ones() {
    let text = "fail-on = 'warning'\npedantic = true\n[rules]\nmissing-flush = 'warning'\n\
                    transient-data = 'off'\n[preset.ci.rules]\nmissing-flush = 'bug'\n";
    let base = parse(text, None).unwrap();
    assert_eq!(base.fail_on, Some(FailOn::Warning));
    assert_eq!(base.pedantic, Some(true));
    assert_eq!(base.rules["missing-flush"], RuleLevel::Warning);
    let ci = parse(text, Some("ci")).unwrap();
    assert_eq!(ci.rules["missing-flush"], RuleLevel::Bug);
    assert_eq!(ci.rules["transient-data"], RuleLevel::Off);
}

#[test]
fn a_misspelt_rule_is_an_error() {
    let why = parse("# x\n[rules]\nmising-flush = 'off'\n", None).unwrap_err();
    let expected = "line 3: no rule `mising-flush`; did you mean `missing-flush`?";
    assert!(why.contains(expected), "{why}");
    let why = parse("[rules]\nmissing-flush = 'error'\n", None).unwrap_err();
    assert!(why.contains("line 2: unknown variant `error`"), "{why}");
    let oracle = "[rules]\nx = 'warning'\n[[oracle]]\nid = 'x'\nsummary = ''\nstores = {}\nonly-inside = []\n";
    assert!(parse(oracle, None).is_ok());
}
