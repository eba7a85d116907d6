/// Which part of a long list a report holds: those that are not simply in use come first.
///
/// Defaults: from the first one, 100 of them. At most 1 000 are given at a time: a report is read by a person, or by a job
/// that can ask for the next part.
///
/// ```
/// use evenkeel::observe::Page;
///
/// let second = Page::default().with_offset(100);
/// assert_eq!((second.offset(), second.limit()), (100, 100));
/// assert_eq!(Page::default().with_limit(50_000).limit(), 1_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    offset: usize,
    limit: usize,
}

/// The most that one report holds: some 400 KB of JSON.
const MOST: usize = 1_000;

impl Default for Page {
    fn default() -> Self {
        Self { offset: 0, limit: 100 }
    }
}

impl Page {
    /// Passes over so many (default 0).
    #[must_use]
    pub fn with_offset(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Gives so many at most (default 100; 1 000 is the most).
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit: limit.min(MOST), ..self }
    }

    /// How many are passed over.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many are given at most.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

/// How an explanation is made.
///
/// Defaults: 10 picks in the dry run, the first [`Page`].
///
/// ```
/// use evenkeel::observe::ExplainOptions;
///
/// let options = ExplainOptions::default().with_picks(1_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    picks: u32,
    page: Page,
}

/// The most picks of a dry run: enough to see a share of one in a hundred, and a few milliseconds at most policies.
const MOST_PICKS: u32 = 10_000;

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { picks: 10, page: Page::default() }
    }
}

impl ExplainOptions {
    /// So many picks are made in the dry run (default 10; 10 000 is the most; 0 makes none).
    #[must_use]
    pub fn with_picks(self, picks: u32) -> Self {
        Self { picks: picks.min(MOST_PICKS), ..self }
    }

    /// Which candidates are listed.
    #[must_use]
    pub fn with_page(self, page: Page) -> Self {
        Self { page, ..self }
    }

    /// The picks of the dry run.
    pub fn picks(&self) -> u32 {
        self.picks
    }

    /// The candidates that are listed.
    pub fn page(&self) -> Page {
        self.page
    }
}
