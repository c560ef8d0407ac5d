# Runs mda, MASS, pROC and p.adjust of R, see remake.py: Rscript run_r.R FOLDER
suppressMessages({library(mda); library(MASS); library(pROC); library(jsonlite)})
folder <- commandArgs(trailingOnly = TRUE)[1]
cases <- fromJSON(file.path(folder, "r_in.json"), simplifyVector = TRUE,
                  simplifyDataFrame = FALSE)

discriminants <- function(case, train) {
  g <- factor(case$y)
  data <- data.frame(case$X)
  equal <- rep(1 / nlevels(g), nlevels(g))
  learn <- cbind(data[train, , drop = FALSE], g = g[train])
  new <- data[-train, , drop = FALSE]
  fit <- switch(case$kind,
    ridge = fda(g ~ ., data = learn, method = gen.ridge, lambda = case$lam),
    df = fda(g ~ ., data = learn, method = gen.ridge, df = case$df),
    matrix = fda(g ~ ., data = learn, method = gen.ridge, lambda = case$lam,
                 omega = eigen(case$omega)[c("values", "vectors")]))
  list(fda = as.integer(predict(fit, new, prior = equal)),
       fda_empirical = as.integer(predict(fit, new)),
       variates = predict(fit, new, type = "variates"),
       posterior = predict(fit, new, type = "posterior", prior = equal),
       explained = as.numeric(fit$percent.explained),
       fitted_df = fit$fit$df, fitted_lam = fit$fit$lambda)
}

gaussian <- function(case, train) {
  g <- factor(case$y[train])
  X <- as.matrix(case$X)
  if (ncol(X) > length(train) - nlevels(g)) return(NULL)
  new <- X[-train, , drop = FALSE]
  fit <- lda(X[train, , drop = FALSE], g, prior = rep(1 / nlevels(g), nlevels(g)))
  equal <- predict(fit, new)
  # Priors weigh the classes in the discriminants, too; those in the data do so here.
  by_size <- predict(lda(X[train, , drop = FALSE], g), new)
  list(lda = as.integer(equal$class), lda_posterior = equal$posterior,
       lda_x = by_size$x)
}

# The area under the curve of class 1 against class 0, by one feature with ties.
curve <- function(case) {
  two <- case$y < 2
  r <- roc(case$y[two], case$few[two], levels = c(0, 1), direction = "<", quiet = TRUE)
  list(auc = as.numeric(auc(r)), sensitivity = rev(r$sensitivities),
       specificity = rev(r$specificities))
}

adjusted <- function(null) {
  p <- sapply(seq_len(ncol(null)), function(j) mean(null[, j] >= null[1, j]))
  list(p = p, bonferroni = p.adjust(p, "bonferroni"), BH = p.adjust(p, "BH"),
       BY = p.adjust(p, "BY"))
}

outputs <- lapply(cases, function(case) {
  train <- setdiff(seq_along(case$y), case$test + 1)
  c(discriminants(case, train), gaussian(case, train), curve(case),
    adjusted(as.matrix(case$null)))
})
write(toJSON(outputs, digits = NA, auto_unbox = TRUE), file.path(folder, "r_out.json"))
cat(R.version.string, "\n")
for (name in c("mda", "MASS", "pROC")) cat(name, as.character(packageVersion(name)), "\n")
