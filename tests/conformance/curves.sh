# Sourced by `run`: the trainer's curves as TensorBoard's and VisualDL's own readers see them. A run that was killed in the
# middle and went on is one clean line for both. And the page over what others' writers write; both readers over ours in Python.

curves=$cache/curves
if [ ! -e "$curves/made" ]; then
    echo "fetching TensorBoard and VisualDL (200 MB, once) ..."
    rm -rf "$curves"
    # Their readers need no more than this; all that VisualDL asks for is ten times as much.
    { /usr/bin/python3 -m venv "$curves" &&
        "$curves/bin/pip" install -q --disable-pip-version-check tensorboard==2.20.0 'setuptools<81' tensorboardX==2.6.5 onnx==1.23.2 &&
        "$curves/bin/pip" install -q --disable-pip-version-check --no-deps visualdl==2.5.3 six; } >"$cache/curves.log" 2>&1 &&
        touch "$curves/made" || tail -3 "$cache/curves.log"
fi
curves_train() { # STEPS
    "$(dirname "$SAMPAN")/sampan-train" --device cpu --data synthetic:6400,4 --test_data synthetic:64,4 --model mlp --image 8 --batch_size 16 \
        --num_passes 3 --log_period 5 --saving_period_by_batches 20 --save_dir "$T/curves-out" --log_dir "$T/curves" --max_steps "$1" 2>>"$T/curves.err"
}
if [ -e "$curves/made" ]; then
    # Steps 140 to 150 are made twice: the first time nobody saved them.
    curves_train 150 && rm -r "$T/curves-out/pass-00000-batch-000000150" && curves_train 0 || tail -3 "$T/curves.err"
    for reader in tensorboard visualdl; do
        "$curves/bin/python" -W ignore tests/conformance/curves.py $reader "$T/curves" 2>"$T/curves.why" || { tail -3 "$T/curves.why"; false; }
        result "$reader: reads every scalar of a run that went on, histograms, the picture, precision and recall" $?
    done
    "$curves/bin/python" -W ignore tests/conformance/curves-of-others.py "$T/others" "$(dirname "$SAMPAN")/sampan-train" 2>"$T/curves.why" ||
        { tail -3 "$T/curves.why"; false; }
    result "sampan-train ui: shows what tensorboardX, VisualDL and ONNX wrote; their readers, what sampan.LogWriter did" $?
else
    skipped "TensorBoard, VisualDL" "pip could not fetch them"
fi
