//===- LossScale.h - loss-scaling policies ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Presets that reproduce other systems' loss scalers, and their fields. Uses no
// LLVM or MLIR header.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_LOSSSCALE_H
#define MPC_TRAINING_LOSSSCALE_H

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

/// Policy of loss scaling: initial scale, overflow check and unscaling. A plain
/// value.
///
/// Sources of the presets' rules: torch.amp.GradScaler; Keras 3's and tf_keras'
/// LossScaleOptimizer; TensorFlow 2.1's DynamicLossScale; apex' LossScaler;
/// DeepSpeed's DynamicLossScaler.
struct LossScalePreset {
  /// Gradients that the finiteness check examines; None: no step is skipped.
  enum class Check { None, Scaled, Unscaled };
  /// Unscaling of gradients: multiplication by the f32 of the float64
  /// reciprocal, by the f32 reciprocal, or division by the scale.
  enum class Unscale { Reciprocal64, Reciprocal32, Divide };
  /// Effect of an overflow at the minimum scale: the scale stays, or the host
  /// ends training with an error.
  enum class OnFloor { Hold, Error };
  /// True if a skipped step increments the step count.
  enum class CountOnSkip { Hold, Advance };
  /// Check under gradient accumulation: one check of the window's sum, or one
  /// per micro step, where a bad micro step is dropped and repeated.
  enum class Accumulation { Window, MicroStep };
  /// Clipping of gradients by norm. `Torch`: by min(1, limit / (norm + 1e-6)),
  /// with the norm of the tensors' norms. `Keras`: by limit * min(1 / norm, 1 /
  /// limit), with the root of the tensors' sums of squares.
  enum class Clip { Torch, Keras };

  /// Canonical name: "torch", "keras3", "tf_keras", "tf2.1", "apex",
  /// "deepspeed", "static" or "none".
  std::string name = "none";
  /// Initial scale.
  double init = 1;
  /// Factor after `interval` consecutive finite steps, and after an overflow.
  /// Both 1: the scale is constant and not part of the state.
  double growth = 1, backoff = 1;
  int64_t interval = 2000;
  std::optional<double> min, max;
  /// True to keep the scale if the new one would not be finite.
  bool keepFinite = false;
  /// Number of overflows, including the last one, before the scale backs off.
  int64_t hysteresis = 1;
  /// True to reset hysteresis after each finite step, not only on growth.
  bool refillHysteresis = false;
  Check check = Check::None;
  Unscale unscale = Unscale::Reciprocal64;
  OnFloor onFloor = OnFloor::Hold;
  CountOnSkip countOnSkip = CountOnSkip::Hold;
  Accumulation accumulation = Accumulation::Window;
  Clip clip = Clip::Torch;

  /// Returns true if the scale is part of the training state.
  bool isDynamic() const { return growth != 1 || backoff != 1; }
  /// Returns true if gradients are scaled.
  bool scales() const { return isDynamic() || init != 1; }
  /// Returns true if steps can be skipped.
  bool checks() const { return check != Check::None; }
  /// Returns true if a skipped step at this scale ends training.
  bool endsAt(float scale) const {
    return onFloor == OnFloor::Error && min && double(scale) <= *min;
  }

  /// Parses `PRESET[,field=value...]`: "torch" or its synonym "dynamic",
  /// "keras3", "tf_keras", "tf2.1", "apex", "deepspeed", "static=N", "none".
  /// Fields: init, growth, backoff, interval, min, max (numbers, the last two
  /// also "none"), keep_finite, refill_hysteresis (0 or 1), hysteresis, check
  /// (none, scaled, unscaled), unscale (reciprocal64, reciprocal32, divide),
  /// on_floor (hold, error), count_on_skip (hold, advance), accumulation
  /// (window, micro_step), clip (torch, keras). Returns nullopt, with a
  /// sentence in `error`, if the text is invalid.
  static std::optional<LossScalePreset> parse(const std::string &text,
                                              std::string &error);
};

} // namespace mpc

#endif // MPC_TRAINING_LOSSSCALE_H
