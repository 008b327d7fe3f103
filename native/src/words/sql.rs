//! Sentences that name values of Python, as SQL writes these.

/// Values of Python and of SQL.
const VALUES: [(&str, &str); 3] = [("True", "true"), ("False", "false"), ("None", "NULL")];

/// An error with `true`, `false` and `NULL`, and with `name := value` for `name=value`; texts in
/// quotes stay as they are.
pub fn in_sql(message: &str) -> String {
    let mut found = String::with_capacity(message.len());
    let mut word = String::new();
    let mut quoted = false;
    // A sentence that says what to write in each language stays as it is.
    let is_of_both = message.contains(" in Python");
    for (at, letter) in message.char_indices() {
        if letter == '\'' {
            quoted = !quoted;
        }
        if !quoted && (letter.is_alphanumeric() || letter == '_') {
            word.push(letter);
            continue;
        }
        let next = message[at + letter.len_utf8()..].chars().next();
        let names =
            !word.is_empty() && next.is_some_and(|next| !next.is_whitespace() && next != '=');
        found.push_str(&value_of(&word));
        word.clear();
        match letter {
            '=' if !quoted && names && !is_of_both => found.push_str(" := "),
            _ => found.push(letter),
        }
    }
    found.push_str(&value_of(&word));
    found
}

fn value_of(word: &str) -> String {
    let own = VALUES.iter().find(|(python, _)| *python == word);
    own.map_or(word, |(_, sql)| sql).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_names_are_those_of_sql() {
        for (python, sql) in [
            ("ridge is True; it must be a number", "ridge is true; it must be a number"),
            (
                "scale is 'True'; it must be True or False",
                "scale is 'True'; it must be true or false",
            ),
            (
                "missing_columns='unavailable' allows this",
                "missing_columns := 'unavailable' allows this",
            ),
            ("a == b, k >= 2 and x = 3", "a == b, k >= 2 and x = 3"),
            ("None", "NULL"),
            ("column 'a=b' of Truebase", "column 'a=b' of Truebase"),
        ] {
            assert_eq!(in_sql(python), sql);
        }
    }
}
