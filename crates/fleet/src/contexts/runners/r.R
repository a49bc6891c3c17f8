# The runner of R contexts: one R that stays. bash gives it the control stream as two pipes, 3 and 4.
# All names are in a function, so that the code's own, which are in the global environment, stay apart.
runner <- function() {
  input <- file("/dev/fd/3", "rb", raw = TRUE)
  output <- file("/dev/fd/4", "wb", raw = TRUE)

  read_line <- function() {
    bytes <- raw(0)
    repeat {
      byte <- readBin(input, "raw", 1L)
      if (length(byte) == 0) quit(save = "no")
      if (byte == as.raw(10L)) return(strsplit(rawToChar(bytes), " ", fixed = TRUE)[[1]])
      bytes <- c(bytes, byte)
    }
  }

  read_bytes <- function(count) {
    value <- raw(0)
    while (length(value) < count) {
      part <- readBin(input, "raw", count - length(value))
      if (length(part) == 0) quit(save = "no")
      value <- c(value, part)
    }
    value
  }

  read_frame <- function() {
    head <- read_line()
    fields <- list()
    for (index in seq_len(as.integer(head[2]))) {
      field <- read_line()
      fields[[index]] <- list(name = field[1], value = read_bytes(as.integer(field[2])))
      read_bytes(1L)
    }
    list(kind = head[1], fields = fields)
  }

  send <- function(kind, fields) {
    writeBin(charToRaw(sprintf("%s %d\n", kind, length(fields))), output)
    for (name in names(fields)) {
      bytes <- charToRaw(enc2utf8(fields[[name]]))
      writeBin(charToRaw(sprintf("%s %d\n", name, length(bytes))), output)
      writeBin(bytes, output)
      writeBin(charToRaw("\n"), output)
    }
    flush(output)
  }

  # Every field of that name, as text.
  texts <- function(frame, name) {
    found <- Filter(function(field) field$name == name, frame$fields)
    vapply(found, function(field) {
      text <- rawToChar(field$value)
      Encoding(text) <- "UTF-8"
      text
    }, "")
  }

  # A call's own directory and variables; what it gives back undoes them.
  enter <- function(frame) {
    entries <- texts(frame, "env")
    names <- sub("=.*", "", entries)
    before <- Sys.getenv(names, unset = NA, names = TRUE)
    for (entry in entries) do.call(Sys.setenv, setNames(list(sub("^[^=]*=", "", entry)), sub("=.*", "", entry)))
    back <- getwd()
    for (place in texts(frame, "cwd")) setwd(place)
    function() {
      if (length(texts(frame, "cwd")) > 0) setwd(back)
      Sys.unsetenv(names(before)[is.na(before)])
      if (any(!is.na(before))) do.call(Sys.setenv, as.list(before[!is.na(before)]))
    }
  }

  # The last value, when R itself would show it.
  evaluate <- function(code) {
    last <- list(visible = FALSE)
    for (expression in as.list(parse(text = code, encoding = "UTF-8", keep.source = FALSE))) {
      last <- withVisible(eval(expression, globalenv()))
    }
    if (last$visible) {
      text <- paste(capture.output(print(last$value)), collapse = "\n")
      list(main = "1", "text/plain" = substr(text, 1L, 1000000L))
    }
  }

  answer <- function(frame) {
    result <- NULL
    failure <- NULL
    leave <- function() NULL
    tryCatch({
      if (length(texts(frame, "stdin")) > 0) stop("standard input cannot be given to code of R")
      leave <- enter(frame)
      result <- allowInterrupts(evaluate(texts(frame, "code")))
    },
    interrupt = function(condition) {
      failure <<- list(name = "Interrupt", value = "the code was interrupted", traceback = "Interrupt")
    },
    error = function(condition) {
      told <- conditionMessage(condition)
      where <- conditionCall(condition)
      # A call of the runner's own says nothing about the code.
      where <- if (!is.null(where)) deparse(where)[1]
      own <- is.null(where) || startsWith(where, "eval(expression") || startsWith(where, "parse(text = code")
      text <- if (own) "Error: " else paste0("Error in ", where, " : ")
      failure <<- list(name = class(condition)[1], value = told, traceback = paste0(text, told))
    })
    try(leave(), silent = TRUE)
    if (!is.null(result)) send("result", result)
    if (!is.null(failure)) {
      # For whoever reads only what was printed.
      cat(failure$traceback, "\n", sep = "", file = stderr())
      send("error", failure)
    }
    flush(stdout())
    send("done", list(call = texts(frame, "call"), exit_code = if (is.null(failure)) "0" else "1"))
  }

  # A warning is told when it comes, not when R is idle, which it never is.
  options(warn = 1)
  invisible(Sys.setlocale("LC_CTYPE", "C.UTF-8"))
  send("ready", list(version = paste(R.version$major, R.version$minor, sep = ".")))
  repeat {
    frame <- suspendInterrupts(read_frame())
    # One that came between two calls is nobody's.
    tryCatch(Sys.sleep(0), interrupt = function(condition) NULL)
    if (frame$kind == "run") suspendInterrupts(answer(frame))
  }
}

runner()
