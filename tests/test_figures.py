from pruner.figures import empty_figure, plain_ticks


def test_logarithmic_axes_have_plain_numbers():
    figure = empty_figure(2, 3)
    assert figure.get_size_inches().tolist() == [2, 3]
    axes = figure.subplots()
    axes.set_yscale("log")
    axes.set_ylim(0.5, 200)
    plain_ticks(axes.yaxis)
    figure.canvas.draw()
    shown = {label.get_text() for label in axes.get_yticklabels()}
    assert shown >= {"0.5", "1", "2", "5", "10", "20", "50", "100", "200"}
