//! Which rows to observe, so that the coefficients of a linear model are known best.
//!
//! Coefficients have the prior N(0, Lambda^-1), Lambda = beta2 I; a row x is answered with noise of
//! variance sigma2. With s = 1 / sigma2:
//!
//! ```text
//! P(S) = (Lambda + s X_S' X_S)^-1        posterior covariance
//! f(S) = Tr(Lambda^-1) - Tr(P(S))
//! f(S + x) - f(S) = s |P x|^2 / (1 + s x'P x)
//! ```
//!
//! The gain is not submodular (Qian, Singer 2019, appendix D): that of one row may grow when others
//! are taken, so an old gain bounds nothing. Its variance x'Px does only fall, and
//! |P x|^2 <= lambda_max(P) x'Px, which gives a bound that stays true.
//!
//! | module | what |
//! |---|---|
//! | `posterior` | P as a root, and the rows taken |
//! | `tracked` | gains of rows, which follow the rows taken |
//! | `held` | the rows of the largest variances, as many as fit |
//! | `greedy` | the best row, again and again |
//! | `candidates` | rows of a table as numbers |
//!
//! Source: Qian, Singer (2019), corollary 9 and appendix D, eq. 4.

pub mod candidates;
pub mod greedy;
pub mod held;
pub mod posterior;
pub mod tracked;
