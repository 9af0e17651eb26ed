#ifndef MUSTER_CLIENT_TERMINAL_HELP_FORMATTER_H_
#define MUSTER_CLIENT_TERMINAL_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Formats the help of a command, in lines of at most 80 characters.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  // Says ranges and choices in plain words: "INT=1, 1 to 16" and "shared_memory|tcp".
  std::string make_option_opts(const CLI::Option* option) const override;
};

// Breaks lines of more than `width` characters at blanks. The rest of a line is indented to the
// description in a line of a list ("  --name TYPE   description"), otherwise to the beginning of
// the line. Words that are longer than a line stay whole.
std::string WrapLines(absl::string_view text, size_t width);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_HELP_FORMATTER_H_
