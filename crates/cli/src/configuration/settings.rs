//! Settings: keys at the top of the file, each with the environment variable that goes before it.

use std::env;

use toml::Value;
use transfer::client::{AUTO, Settings};
use transfer::{SECRET_FILE_VARIABLE, TLS_CA_VARIABLE};

/// One setting, by its key in the file.
pub struct Setting {
    pub key: &'static str,
    pub variable: &'static str,
    /// The default value, if there is one.
    default: Option<fn(&Settings) -> String>,
}

impl Setting {
    /// Returns the default value, if there is one.
    pub fn default(&self) -> Option<String> {
        self.default.map(|default| default(&Settings::default()))
    }

    /// Returns what the environment says; an empty variable says nothing.
    pub fn in_environment(&self) -> Option<String> {
        let value = env::var_os(self.variable).filter(|value| !value.is_empty());
        value.map(|value| value.to_string_lossy().into_owned())
    }
}

const fn setting(key: &'static str, variable: &'static str) -> Setting {
    Setting { key, variable, default: None }
}

const fn number(key: &'static str, variable: &'static str, default: fn(&Settings) -> String) -> Setting {
    Setting { key, variable, default: Some(default) }
}

/// All settings, in the order in which they are shown; docs/operating.md says what each means.
pub const SETTINGS: [Setting; 9] = [
    setting("store", "THALWEG_STORE"),
    setting("secret_file", SECRET_FILE_VARIABLE),
    setting("tls_ca", TLS_CA_VARIABLE),
    setting("application", "THALWEG_APPLICATION"),
    number("streams", "THALWEG_STREAMS", |_| AUTO.to_owned()),
    number("window_mib", "THALWEG_WINDOW_MIB", |default| (default.window_bytes >> 20).to_string()),
    number("timeout_s", "THALWEG_TIMEOUT_S", |default| default.timeout.as_secs().to_string()),
    number("stripe_bytes", "THALWEG_STRIPE_BYTES", |default| default.stripe_bytes.to_string()),
    setting("log", "THALWEG_LOG"),
];

/// Refuses keys that are no setting, and values that no variable can hold.
pub fn check(key: &str, value: &Value) -> Result<(), String> {
    if !SETTINGS.iter().any(|setting| setting.key == key) {
        let keys: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        return Err(format!(
            "{key}: no such setting; there are {}, [alias.NAME], and [VERB] for options",
            keys.join(", ")
        ));
    }
    let is_right = value.is_integer() || value.as_str().is_some_and(|text| !text.is_empty() && !text.contains('\0'));
    is_right.then_some(()).ok_or_else(|| format!("{key}: a text or a whole number is wanted here"))
}

/// The value as the variable has it.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
