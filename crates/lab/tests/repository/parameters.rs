//! Every parameter of a shipped system says where it comes from.

use weft_lab::spec::{OriginKind, SpecError, Tree};

use crate::repository::files::{self, File, Finding, assert_none};

/// What names a file or a document and is no parameter.
const NAMES: &[&str] = &["base", "preset", "system.title", "system.document"];

/// Every value of the file, those of all presets included, that does not say where it comes from.
fn without_origin(file: &File) -> Result<Vec<Finding>, SpecError> {
    let leaves = Tree::parse(&file.path, &file.text)?.leaves();
    let parameters = leaves.iter().filter(|leaf| !NAMES.contains(&leaf.path.as_str()));
    let findings = parameters.filter_map(|leaf| {
        let line = leaf.place.line().unwrap_or(1);
        let message = match &leaf.origin {
            None => format!("{} has no origin: stated, derived or calibrated", leaf.path),
            Some(origin) if origin.text.trim().is_empty() => {
                format!("the origin of {} says nothing", leaf.path)
            }
            Some(origin) if origin.kind == OriginKind::Calibrated => {
                origin.predicts.is_none().then(|| format!("{} predicts nothing", leaf.path))?
            }
            Some(_) => return None,
        };
        Some(file.finding(line, message))
    });
    Ok(findings.collect())
}

#[test]
fn every_shipped_parameter_has_an_origin() {
    let systems: Vec<File> =
        files::ending(".toml").into_iter().filter(|f| f.path.starts_with("systems/")).collect();
    assert!(!systems.is_empty(), "no system is shipped");
    for system in systems {
        assert_none(&without_origin(&system).unwrap());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = without_origin(&File::new("systems/x.toml", text)).unwrap();
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_parameter_without_origin_is_found() {
        let text = "[system]\ntitle = \"X\"\nhosts = 4\n\n[channel.a.link]\n\
                    rate = { value = \"1 Gbit/s\", stated = \"2\" }\nlength = \"5 m\"\n";
        assert_eq!(
            found(text),
            [
                "systems/x.toml:3: system.hosts has no origin: stated, derived or calibrated",
                "systems/x.toml:7: channel.a.link.length has no origin: stated, derived or \
                 calibrated"
            ]
        );
    }

    #[test]
    fn presets_are_looked_into() {
        let text = "[preset.slow.channel.a]\npacket = \"64 B\"\n";
        assert_eq!(
            found(text),
            ["systems/x.toml:2: preset.slow.channel.a.packet has no origin: stated, derived or \
              calibrated"]
        );
    }

    #[test]
    fn an_empty_origin_and_a_calibration_that_predicts_nothing_are_refused() {
        let text = "hosts = { value = 4, derived = \" \" }\n";
        assert_eq!(found(text), ["systems/x.toml:1: the origin of hosts says nothing"]);
        let text = "hosts = { value = 4, calibrated = \"Figure 1\" }\n";
        let error = without_origin(&File::new("systems/x.toml", text)).unwrap_err();
        assert!(error.to_string().contains("predicts nothing"), "{error}");
    }
}
