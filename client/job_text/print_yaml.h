#ifndef MUSTER_CLIENT_JOB_TEXT_PRINT_YAML_H_
#define MUSTER_CLIENT_JOB_TEXT_PRINT_YAML_H_

#include <map>
#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// What stands above fields, by their paths, such as "data.csv.label"; each line of a text becomes a
// comment of its own.
using YamlComments = std::map<std::string, std::string>;

// The fields of a message that are set, in the order of the file that declares them, as a YAML
// document that ParseYaml and FillMessage read back to the same message. Numbers have as many
// digits as it takes for that.
std::string PrintYaml(const google::protobuf::Message& message, const YamlComments& comments = {});

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TEXT_PRINT_YAML_H_
