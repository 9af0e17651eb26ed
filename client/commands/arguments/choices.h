#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_CHOICES_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_CHOICES_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// What the value of an argument is, where completion knows its candidates: the argument's type name
// in the help says so.
inline constexpr char kJobType[] = "JOB";
inline constexpr char kCheckpointType[] = "JOB[@CLOCK]";
inline constexpr char kServerType[] = "SERVER";
inline constexpr char kCommandType[] = "COMMAND";

// A check that takes one of these names in any case, and says which one is near where a value is
// none. As an option's transform, the value becomes the name as it is written here.
class OneOf : public CLI::Validator {
 public:
  explicit OneOf(const std::vector<std::string>& names);
};

// The names that an option's OneOf takes; none where it has none.
std::vector<std::string> ChoicesOf(CLI::Option& option);

// "did you mean list? ", within an error; empty where no name is near.
std::string DidYouMean(const std::optional<std::string>& near);

// "a", "a or b", "a, b or c".
std::string JoinWithOr(const std::vector<std::string>& names);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_CHOICES_H_
