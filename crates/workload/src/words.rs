//! The words that synthetic prompts are made of.

/// English words that are one token each in `cl100k_base`, `o200k_base`, `p50k_base` and
/// `r50k_base`, at the start of a text and after a space, whatever stands beside them. So a text
/// of N of them with single spaces has N tokens, and no vocabulary need be built to know it. The
/// order is part of every seeded run: never sort, never replace a word.
pub(crate) const WORDS: [&str; 1024] = [
    "this", "that", "with", "from", "have", "will", "your", "else", "more", "they", "data", "name",
    "their", "time", "which", "value", "about", "over", "type", "part", "work", "when", "other",
    "been", "were", "file", "would", "some", "there", "said", "like", "also", "than", "just",
    "result", "them", "into", "what", "list", "case", "first", "only", "back", "need", "start",
    "user", "under", "then", "people", "should", "test", "make", "after", "right", "long", "read",
    "form", "want", "number", "size", "where", "while", "look", "could", "know", "hand", "most",
    "break", "every", "point", "text", "show", "find", "current", "play", "help", "these", "pass",
    "down", "even", "item", "through", "last", "event", "again", "high", "line", "does", "before",
    "because", "here", "very", "model", "call", "well", "object", "view", "many", "being", "good",
    "using", "stud", "request", "person", "style", "method", "found", "post", "such", "think",
    "much", "check", "open", "next", "follow", "game", "path", "each", "support", "sign", "those",
    "system", "best", "same", "create", "made", "mark", "group", "world", "process", "main",
    "color", "report", "take", "free", "action", "real", "build", "message", "input", "between",
    "table", "head", "must", "order", "product", "place", "week", "prop", "program", "response",
    "struct", "code", "without", "still", "assert", "field", "team", "second", "going", "range",
    "fact", "home", "left", "direct", "allow", "page", "around", "really", "image", "target",
    "both", "level", "document", "local", "content", "quest", "develop", "fore", "great", "month",
    "super", "title", "context", "life", "catch", "change", "position", "book", "version", "three",
    "base", "during", "console", "against", "power", "width", "label", "project", "element",
    "success", "date", "match", "another", "care", "effect", "service", "since", "full", "turn",
    "body", "stand", "block", "keep", "throw", "things", "control", "come", "custom", "source",
    "output", "business", "required", "might", "never", "called", "options", "height", "small",
    "access", "address", "uint", "little", "port", "status", "update", "link", "given", "better",
    "always", "parent", "less", "account", "valid", "sure", "search", "rest", "interest", "site",
    "values", "video", "cell", "player", "cost", "total", "load", "clear", "short", "company",
    "done", "health", "days", "initial", "online", "organ", "reason", "within", "design", "school",
    "consider", "stop", "later", "able", "give", "copy", "either", "lead", "family", "option",
    "exist", "offer", "water", "step", "display", "times", "four", "present", "room", "once",
    "results", "continue", "talk", "grow", "mass", "mean", "until", "market", "area", "length",
    "kind", "light", "side", "example", "miss", "based", "plan", "away", "button", "render",
    "near", "author", "specific", "along", "express", "begin", "software", "thing", "single",
    "rights", "season", "command", "recent", "money", "auto", "working", "query", "window",
    "column", "record", "making", "close", "percent", "past", "write", "move", "special", "city",
    "tell", "select", "font", "course", "late", "amount", "looking", "hold", "property", "price",
    "today", "story", "meet", "sort", "thought", "task", "review", "switch", "above", "question",
    "word", "research", "cover", "whether", "having", "large", "created", "host", "role", "deal",
    "problem", "press", "though", "points", "ever", "services", "actually", "million", "files",
    "often", "info", "space", "store", "format", "details", "face", "save", "items", "social",
    "major", "food", "members", "send", "makes", "global", "contact", "except", "news", "device",
    "material", "below", "media", "added", "card", "handle", "getting", "claim", "enter",
    "location", "night", "doing", "pick", "watch", "human", "strong", "house", "track", "pack",
    "section", "wait", "apply", "template", "subject", "history", "users", "future", "started",
    "mode", "games", "products", "needs", "known", "seen", "border", "live", "variable",
    "provided", "filename", "young", "study", "network", "limit", "went", "fire", "official",
    "received", "months", "quick", "series", "original", "bill", "frame", "draw", "comes",
    "filter", "remove", "front", "selected", "anything", "hours", "models", "early", "center",
    "language", "easy", "download", "register", "period", "screen", "common", "suggest", "accept",
    "random", "players", "among", "circ", "answer", "walk", "five", "friend", "clean", "words",
    "header", "issue", "land", "quality", "works", "half", "simple", "empty", "cook", "nothing",
    "running", "someone", "share", "entry", "changes", "personal", "offset", "events", "needed",
    "likely", "writing", "correct", "fall", "features", "similar", "bring", "member", "board",
    "push", "please", "types", "edit", "defined", "thread", "instead", "film", "phone", "active",
    "article", "almost", "connect", "feature", "install", "complete", "general", "icon", "vector",
    "normal", "database", "music", "speed", "term", "probably", "weight", "module", "engine",
    "issues", "stay", "lower", "perfect", "former", "margin", "heart", "building", "security",
    "inside", "graph", "round", "friends", "energy", "raise", "third", "training", "exit",
    "release", "shall", "outside", "ground", "unique", "tree", "matter", "shows", "fast", "memory",
    "extra", "reported", "unit", "coming", "settings", "quite", "everyone", "pretty", "menu",
    "names", "actual", "fields", "cases", "higher", "respect", "progress", "resource", "sound",
    "contract", "lines", "soon", "join", "fill", "office", "note", "upon", "groups", "gets",
    "cause", "focus", "multiple", "commit", "leave", "align", "reading", "notice", "standard",
    "padding", "internal", "cross", "written", "images", "platform", "force", "living", "pattern",
    "entity", "tool", "feed", "popular", "allowed", "impact", "train", "related", "scale", "score",
    "student", "average", "court", "parts", "song", "channel", "changed", "ways", "plus",
    "profile", "ready", "sense", "latest", "region", "deep", "reach", "counter", "paper", "staff",
    "driver", "category", "stock", "rules", "stack", "playing", "bottom", "road", "held",
    "includes", "avoid", "insert", "machine", "operator", "argument", "movie", "activity",
    "license", "ability", "choice", "flex", "goal", "touch", "built", "worth", "natural",
    "storage", "bytes", "travel", "grid", "levels", "released", "respond", "rule", "starting",
    "seek", "usually", "door", "plant", "distance", "protect", "route", "primary", "leaders",
    "updated", "bank", "sample", "hands", "shape", "sleep", "sold", "safe", "shared", "remember",
    "shoot", "scene", "park", "equal", "serial", "allows", "middle", "actions", "objects", "ones",
    "green", "layer", "views", "core", "secret", "chat", "effects", "setting", "happy", "camera",
    "sale", "town", "slow", "blue", "cast", "package", "club", "played", "existing", "complex",
    "analysis", "computer", "mobile", "owner", "leading", "flow", "shift", "eyes", "nice", "floor",
    "stage", "solid", "worked", "editor", "medical", "hour", "books", "felt", "modern", "seconds",
    "roll", "setup", "growth", "turned", "letter", "drive", "photo", "shot", "mother", "trade",
    "parents", "piece", "practice", "sites", "reader", "heard", "gold", "fair", "manager",
    "loaded", "grand", "credit", "reports", "whose", "pair", "split", "capital", "library",
    "brand", "charge", "depend", "basic", "star", "carry", "positive", "conduct", "layout",
    "picture", "videos", "pull", "pages", "edge", "bound", "learning", "comfort", "shown",
    "classes", "none", "hair", "laws", "wide", "jobs", "math", "scope", "keys", "mask", "theme",
    "fine", "writer", "destroy", "favorite", "named", "panel", "rock", "trust", "economic",
    "physical", "rows", "define", "father", "nature", "nation", "wall", "cool", "handler", "tests",
    "launch", "band", "figure", "rank", "projects", "headers", "partial", "batch", "zero", "paid",
    "queue", "maximum", "birth", "maybe", "limited", "moving", "fully", "photos", "pressure",
    "thinking", "concept", "sets", "meaning", "daily", "multi", "pool", "surface", "workers",
    "master", "stories", "steps", "builder", "tools", "digital", "intent", "cart", "cards",
    "purpose", "pointer", "requires", "places", "alone", "export", "testing", "adjust", "agree",
    "director", "wood", "reset", "forms", "internet", "devices", "aren", "fish", "leader",
    "culture", "straight", "audio", "spot", "behavior", "detail", "fresh", "voice", "links",
    "boost", "cells", "college", "sing", "jump", "smart", "rates", "adding", "aware", "binary",
    "closed", "although", "income", "domain", "depth", "posts", "micro", "album", "axis",
    "minimum", "science", "budget", "truth", "gone", "station", "finished", "shop", "eight",
    "mail", "duration", "seven", "calling", "brain", "volume", "upload", "units", "payment",
    "factor", "strength", "balance", "hidden", "trigger", "warm", "flash", "negative", "loading",
    "ship", "alpha", "replace", "ahead", "agent", "transfer", "journal", "quarter", "fixed",
    "perhaps", "degree", "notes", "trip", "soft", "upper", "highest", "forces", "thus", "posted",
    "stress", "runs", "guide", "sequence", "dress", "folder", "topic", "opening", "scan", "street",
    "mist", "central", "heat", "mouse", "capacity", "relative", "remote", "reflect", "monitor",
    "gain", "append", "chain", "farm", "speech", "whatever", "spread", "clock", "radio", "peace",
    "opened", "mission", "football", "managed", "haven", "glass", "older", "timer", "critical",
    "execute", "wire", "strings", "electric", "rich", "agency", "placed", "weather", "seeing",
    "visual", "inner", "angle", "stick", "styles", "born", "raised", "episode", "external",
    "finding", "crow", "sand", "healthy", "metal", "submit", "cars", "square", "thanks", "minute",
    "span", "earth", "species", "visible", "cloud", "slot", "bits", "ended", "chart", "tags",
    "steel",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn words_differ_and_are_lower_case_letters() {
        assert_eq!(WORDS.iter().collect::<HashSet<_>>().len(), WORDS.len());
        assert!(
            WORDS
                .iter()
                .all(|w| w.len() >= 4 && w.bytes().all(|b| b.is_ascii_lowercase()))
        );
    }

    /// Tokens are made within the pieces that a vocabulary's pattern cuts a text into. The pattern
    /// cuts before a space that precedes a letter, so a word keeps its token in any company.
    #[test]
    fn each_word_is_one_token_in_every_vocabulary() {
        for core in [
            tiktoken_rs::cl100k_base_singleton(),
            tiktoken_rs::o200k_base_singleton(),
            tiktoken_rs::p50k_base_singleton(),
            tiktoken_rs::r50k_base_singleton(),
        ] {
            for word in WORDS {
                assert_eq!(core.count_ordinary(word), 1, "{word}");
                assert_eq!(core.count_ordinary(&format!(" {word}")), 1, "' {word}'");
            }
            assert_eq!(core.count_ordinary(&WORDS.join(" ")), WORDS.len());
        }
    }
}
