#ifndef MUSTER_COMMON_MODEL_FILES_EXPERT_CONFIG_H_
#define MUSTER_COMMON_MODEL_FILES_EXPERT_CONFIG_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/model_files/config_fields.h"
#include "common/model_files/transformer_layout.h"

namespace muster {

// The keys of a config.json that say how a model with experts is made.
//
// router_aux_loss_coef of these families is not MoeSpec.auxiliary_loss. Their loss is one of all
// layers together: E times the sum over experts of (choices over tokens) times (mean probability),
// both over the tokens of all layers. Muster's is one of each layer, whose choices are divided by
// top_k, and the layers' losses are added. With choices spread evenly theirs is top_k, and Muster's
// is the number of layers with experts. So Muster's coefficient is theirs times top_k over that
// number of layers. Both losses then have the same gradients wherever all layers choose in the same
// proportions; elsewhere Muster's evens out each layer, and theirs the layers' mean.

// Reads the keys of a family with experts into spec.moe. REQUIRES: spec.layers and
// spec.feed_forward are set.
void ReadExperts(HuggingFaceFamily family, ConfigFields& fields, v1::TransformerSpec& spec);

// Adds the keys to a configuration. REQUIRES: the specification is complete and of the family,
// which is kMixtral or kQwen2Moe.
void WriteExperts(HuggingFaceFamily family, const v1::TransformerSpec& spec, nlohmann::json& json);

// Returns what a user should know of a complete specification that came from a config.json: how its
// coefficient of the auxiliary loss comes from the file's. Empty: nothing.
std::string ExpertsNote(const v1::TransformerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_EXPERT_CONFIG_H_
