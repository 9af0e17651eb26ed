#ifndef MUSTER_COMMON_MODEL_FILES_ROTARY_CONFIG_H_
#define MUSTER_COMMON_MODEL_FILES_ROTARY_CONFIG_H_

#include <nlohmann/json.hpp>

#include "common/model_files/config_fields.h"

namespace muster {

namespace v1 {
class TransformerSpec;
}  // namespace v1

// Rotary angles in config.json: their base in `rope_theta`, and how they are scaled in
// `rope_scaling`; newer files have both in one object, `rope_parameters`.

// Reads them; `left_out` is the family's base. What is not understood is refused in `fields`.
// REQUIRES: spec.context() is set.
void ReadRotary(ConfigFields& fields, float left_out, v1::TransformerSpec& spec);

// Adds them. REQUIRES: `spec` was filled by FillTransformerDefaults.
void WriteRotary(const v1::TransformerSpec& spec, nlohmann::json& json);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_ROTARY_CONFIG_H_
