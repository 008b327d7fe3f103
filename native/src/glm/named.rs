//! Families by the text that SQL and Python have.

use super::family::{Family, Kind};
use super::link::{LINKS, Link};
use crate::words::error::{Error, listed, shown};

/// Families with their links, the default first.
const FAMILIES: [(&str, &[&str]); 7] = [
    ("gaussian", &["identity", "log", "inverse"]),
    ("binomial", &["logit", "probit", "cloglog", "loglog", "cauchit", "log", "identity"]),
    ("poisson", &["log", "identity", "sqrt"]),
    ("gamma", &["log", "identity", "inverse"]),
    ("inverse_gaussian", &["log", "identity", "inverse", "inverse_squared"]),
    ("negative_binomial", &["log", "identity", "sqrt"]),
    ("tweedie", &["log", "identity", "inverse", "inverse_squared", "sqrt"]),
];
/// Families that Python has only.
const ELSEWHERE: [&str; 2] = ["multinomial", "ordinal"];
/// Names of other libraries for a family.
const MEANT: [(&str, &str); 8] = [
    ("logistic", "binomial"),
    ("logit", "binomial"),
    ("bernoulli", "binomial"),
    ("normal", "gaussian"),
    ("linear", "gaussian"),
    ("nb", "negative_binomial(0.8)"),
    ("negbin", "negative_binomial(0.8)"),
    ("probit", "binomial(probit)"),
];

impl Family {
    /// The family of a text: a name, in brackets a number, a link, or both.
    pub fn parse(text: &str) -> Result<Family, Error> {
        let refused = |words: String| Error::argument(format!("family is '{text}'; {words}"));
        let (name, inside) = match text.split_once('(') {
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(inside) => (name, Some(inside)),
                None => (text, None),
            },
            None => (text, None),
        };
        if ELSEWHERE.contains(&name) {
            return Err(refused(
                "it has a predictor for each of several classes, which Python fits, \
                 dbselect.fit(table, ..., family='multinomial'), and glm_predict reads there"
                    .to_string(),
            ));
        }
        let Some((name, links)) = FAMILIES.iter().find(|(known, _)| *known == name) else {
            let meant = MEANT.iter().find(|(other, _)| *other == name);
            let more = meant.map_or(String::new(), |(_, own)| format!("; did you mean '{own}'?"));
            let known = listed(FAMILIES.iter().map(|(name, _)| *name));
            return Err(refused(format!("it must be one of {known}{more}")));
        };
        let parts: Vec<&str> = inside.map_or(Vec::new(), |x| x.split(',').map(str::trim).collect());
        let (given, numbers): (Vec<&str>, Vec<&str>) =
            parts.into_iter().partition(|part| links.contains(part));
        let has_number = ["tweedie", "negative_binomial"].contains(name);
        let links = listed(links.iter().copied());
        if given.len() > 1 || numbers.len() > usize::from(has_number) {
            return Err(refused(format!("the links of {name} are {links}")));
        }
        let number = numbers.first().map(|number| {
            number
                .parse::<f64>()
                .map_err(|_| refused(format!("in brackets it has a number and one of {links}")))
        });
        let number = number.transpose()?;
        let (least, example) = if *name == "tweedie" { (1.0, "1.5") } else { (0.0, "0.8") };
        let number = match number {
            None if has_number && *name == "tweedie" => {
                return Err(refused("it needs a power > 1, as 'tweedie(1.5)'".to_string()));
            }
            None if has_number => {
                return Err(refused(
                    "it needs a dispersion > 0, as 'negative_binomial(0.8)'; Python's dbselect.fit \
                     finds the most likely one"
                        .to_string(),
                ));
            }
            Some(x) if !(x > least && x.is_finite()) => {
                return Err(refused(format!(
                    "its number must be > {least:.0}, as '{name}({example})'"
                )));
            }
            number => number.unwrap_or_default(),
        };
        let kind = match *name {
            "gaussian" => Kind::Gaussian,
            "binomial" => Kind::Binomial,
            "poisson" => Kind::Power(1.0),
            "gamma" => Kind::Power(2.0),
            "inverse_gaussian" => Kind::Power(3.0),
            "tweedie" => Kind::Power(number),
            _ => Kind::NegativeBinomial(number),
        };
        let chosen = given.first().copied().unwrap_or(default_link(name));
        let link = LINKS.iter().find(|(known, _)| *known == chosen);
        Ok(Family { name, kind, link: link.map_or(Link::Identity, |(_, link)| *link) })
    }

    /// The text that `parse` reads, as Python has it.
    pub fn text(&self) -> String {
        let number = match (self.name, self.kind) {
            ("tweedie", Kind::Power(number)) | (_, Kind::NegativeBinomial(number)) => {
                Some(shown(number))
            }
            _ => None,
        };
        let link = self.link.name();
        let link = (link != default_link(self.name)).then(|| link.to_string());
        let inside: Vec<String> = number.into_iter().chain(link).collect();
        match inside.is_empty() {
            true => self.name.to_string(),
            false => format!("{}({})", self.name, inside.join(", ")),
        }
    }
}

fn default_link(name: &str) -> &'static str {
    FAMILIES.iter().find(|(known, _)| *known == name).map_or("", |(_, links)| links[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glm::family::tests::TEXTS;

    #[test]
    fn a_family_is_its_text() {
        for text in TEXTS {
            assert_eq!(Family::parse(text).unwrap().text(), text);
        }
        assert_eq!(Family::parse("gamma( log )").unwrap().text(), "gamma");
    }

    #[test]
    fn what_is_no_family_is_refused_in_a_sentence() {
        for (text, words) in [
            ("logistic", "did you mean 'binomial'?"),
            ("binomial(sqrt)", "the links of binomial are ['logit',"),
            ("binomial(logit", "it must be one of"),
            ("tweedie", "it needs a power > 1"),
            ("tweedie(0.5)", "its number must be > 1"),
            ("negative_binomial", "it needs a dispersion > 0"),
            ("negative_binomial(x)", "in brackets it has a number"),
            ("multinomial", "which Python fits"),
        ] {
            let error = Family::parse(text).unwrap_err().message;
            assert!(error.contains(&format!("family is '{text}'; ")), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }
}
